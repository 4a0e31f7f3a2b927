/* lwmq_spark._native_messages: messages as Python objects, for the calls that are made once per message.
 * All other calls of lwmq.h go through cffi, whose wrapper of a message costs more than the message.
 *
 *     Message   owns one lwmq_message, and is the base of lwmq_spark.Message
 *     Frame     gives a memoryview the bytes of a frame, and holds the Message
 *     Turn, Condition   see turns.h
 *
 * Calls that may wait run without the GIL. Calls whose names end in _now never wait. They keep the GIL, which
 * costs less than releasing it.
 *
 * This file uses Python's limited API, so that one build serves every Python from 3.11 on. */
#include <lwmq/lwmq.h>
#include <string.h>

#include "turns.h"

typedef struct {
  PyObject_HEAD lwmq_message* message; /* NULL until the object is filled */
} Message;

typedef struct {
  PyObject_HEAD PyObject* owner;
  const void* data;
  Py_ssize_t bytes;
} Frame;

/* ---- Frames -------------------------------------------------------------------------------------------- */

static int frame_buffer(PyObject* self, Py_buffer* view, int flags) {
  const Frame* frame = (const Frame*)self;
  return PyBuffer_FillInfo(view, self, (void*)(uintptr_t)frame->data, frame->bytes, 1, flags);
}

static void frame_free(PyObject* self) {
  Py_DECREF(((Frame*)self)->owner);
  free_object(self);
}

static PyType_Slot frame_slots[] = {{Py_tp_dealloc, frame_free}, {Py_bf_getbuffer, frame_buffer}, {0, NULL}};
static PyType_Spec frame_spec = {
    .name = "lwmq_spark._native_messages.Frame",
    .basicsize = sizeof(Frame),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = frame_slots,
};
static PyTypeObject* FrameType;

static PyObject* view_of(PyObject* owner, const void* data, uint64_t bytes) {
  Frame* frame = PyObject_New(Frame, FrameType);
  if (frame == NULL) return NULL;
  frame->owner = Py_NewRef(owner);
  frame->data = data != NULL ? data : "";
  frame->bytes = (Py_ssize_t)bytes;
  PyObject* view = PyMemoryView_FromObject((PyObject*)frame);
  Py_DECREF(frame);
  return view;
}

/* ---- Messages ------------------------------------------------------------------------------------------ */

/* The native message. NULL, with an error: there is none yet. */
static lwmq_message* message_of(PyObject* self) {
  lwmq_message* message = ((Message*)self)->message;
  if (message == NULL) PyErr_SetString(PyExc_ValueError, "a message that was not made");
  return message;
}

static void message_free(PyObject* self) {
  lwmq_message* message = ((Message*)self)->message;
  if (message != NULL) {
    PyObject *kind, *value, *trace;
    PyErr_Fetch(&kind, &value, &trace);
    Py_BEGIN_ALLOW_THREADS lwmq_message_destroy(message);
    Py_END_ALLOW_THREADS PyErr_Restore(kind, value, trace);
  }
  free_object(self);
}

static Py_ssize_t message_length(PyObject* self) {
  const lwmq_message* message = message_of(self);
  return message == NULL ? -1 : (Py_ssize_t)lwmq_message_frame_count(message);
}

static PyObject* view_at(PyObject* self, const lwmq_message* message, Py_ssize_t place) {
  const void* data = NULL;
  uint64_t bytes = 0;
  lwmq_message_frame(message, (uint32_t)place, &data, &bytes);
  return view_of(self, data, bytes);
}

static PyObject* message_item(PyObject* self, PyObject* key) {
  const lwmq_message* message = message_of(self);
  if (message == NULL) return NULL;
  const Py_ssize_t index = PyNumber_AsSsize_t(key, PyExc_IndexError);
  if (index == -1 && PyErr_Occurred()) return NULL;
  const Py_ssize_t count = lwmq_message_frame_count(message);
  const Py_ssize_t place = index >= 0 ? index : index + count;
  if (place < 0 || place >= count) {
    PyErr_Format(PyExc_IndexError, "frame %zd of a message of %zd", index, count);
    return NULL;
  }
  return view_at(self, message, place);
}

static PyObject* message_frames(PyObject* self, PyObject* first) {
  const lwmq_message* message = message_of(self);
  if (message == NULL) return NULL;
  const Py_ssize_t begin = PyNumber_AsSsize_t(first, PyExc_IndexError);
  if (begin == -1 && PyErr_Occurred()) return NULL;
  const Py_ssize_t count = lwmq_message_frame_count(message);
  PyObject* frames = PyList_New(begin < count ? count - begin : 0);
  for (Py_ssize_t i = begin; frames != NULL && i < count; ++i) {
    PyObject* view = view_at(self, message, i);
    if (view == NULL) {
      Py_CLEAR(frames);
    } else {
      PyList_SetItem(frames, i - begin, view);
    }
  }
  return frames;
}

/* A copy of all frames, joined, as bytes. */
static PyObject* joined_frames(const lwmq_message* message) {
  const uint32_t count = lwmq_message_frame_count(message);
  const void* data = NULL;
  uint64_t bytes = 0, total = 0;
  for (uint32_t i = 0; i < count; ++i) {
    lwmq_message_frame(message, i, &data, &bytes);
    if (bytes > (uint64_t)PY_SSIZE_T_MAX - total) return PyErr_NoMemory();
    total += bytes;
  }
  PyObject* all = PyBytes_FromStringAndSize(NULL, (Py_ssize_t)total);
  if (all == NULL) return NULL;
  char* next = PyBytes_AsString(all);
  for (uint32_t i = 0; i < count; ++i) {
    lwmq_message_frame(message, i, &data, &bytes);
    if (bytes > 0) memcpy(next, data, bytes);
    next += bytes;
  }
  return all;
}

static PyObject* message_tobytes(PyObject* self, PyObject* ignored) {
  (void)ignored;
  const lwmq_message* message = message_of(self);
  return message == NULL ? NULL : joined_frames(message);
}

static PyObject* message_take(PyObject* self, PyObject* address) {
  void* message = PyLong_AsVoidPtr(address);
  if (message == NULL && PyErr_Occurred()) return NULL;
  if (((Message*)self)->message != NULL) {
    lwmq_message_destroy(message);
    PyErr_SetString(PyExc_ValueError, "this message was made before");
    return NULL;
  }
  ((Message*)self)->message = message;
  Py_RETURN_NONE;
}

enum {
  kBytesNow = 16384,            /* of one frame: longer frames are copied without the GIL */
  kAllBytesNow = 64 * kBytesNow /* of all frames of a message */
};

/* Whether a buffer of this format (PEP 3118, or NULL) contains Python objects. Names of fields stand between
 * colons. */
static int holds_objects(const char* format) {
  while (format != NULL && *format != '\0' && *format != 'O') {
    if (*format == ':' && (format = strchr(format + 1, ':')) == NULL) return 1;
    ++format;
  }
  return format != NULL && *format == 'O';
}

/* An item of an exact list or tuple, borrowed. */
static PyObject* item_of(PyObject* sequence, Py_ssize_t place) {
  return PyList_CheckExact(sequence) ? PyList_GetItem(sequence, place) : PyTuple_GetItem(sequence, place);
}

/* Appends a copy of each frame. 0: a frame is no buffer, or the frames are too long; an error may be set. The
 * flags are those of memoryview(), so that both accept the same objects. Getting a buffer may run Python
 * code, which may change the list. */
static int append_all(lwmq_message* message, PyObject* frames) {
  Py_ssize_t left = kAllBytesNow;
  for (Py_ssize_t i = 0; i < PySequence_Size(frames); ++i) {
    PyObject* frame = Py_NewRef(item_of(frames, i));
    Py_buffer view;
    const int got = PyObject_GetBuffer(frame, &view, PyBUF_FULL_RO) == 0;
    Py_DECREF(frame);
    if (!got) return 0;
    const int holds_bytes = !holds_objects(view.format); /* objects would be copied as addresses */
    const int fits =
        holds_bytes && PyBuffer_IsContiguous(&view, 'C') && view.len <= kBytesNow && view.len <= left;
    left -= view.len;
    const lwmq_status status =
        fits ? lwmq_message_append(message, view.buf, (uint64_t)view.len) : LWMQ_E_TOO_BIG;
    PyBuffer_Release(&view);
    if (status != LWMQ_OK) return 0;
  }
  return 1;
}

/* A message of a list or tuple of short buffers. NULL: `frames` is something else or too long, or, if an
 * error is set, the call has failed. */
static lwmq_message* message_of_frames(PyObject* frames) {
  if (!PyList_CheckExact(frames) && !PyTuple_CheckExact(frames)) return NULL;
  const Py_ssize_t count = PySequence_Size(frames);
  lwmq_message* message = NULL;
  if (count > UINT16_MAX || lwmq_message_create((uint32_t)count, &message) != LWMQ_OK) return NULL;
  if (append_all(message, frames)) return message;
  lwmq_message_destroy(message);
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
    PyErr_Clear(); /* others, such as KeyboardInterrupt, stay */
  return NULL;
}

static PyObject* message_make(PyObject* self, PyObject* frames) {
  Message* made = (Message*)self;
  lwmq_message* message = made->message == NULL ? message_of_frames(frames) : NULL;
  if (message == NULL && PyErr_Occurred()) return NULL;
  if (message == NULL) Py_RETURN_FALSE;
  if (made->message != NULL) { /* by Python code that ran when a buffer was got */
    lwmq_message_destroy(message);
    Py_RETURN_FALSE;
  }
  made->message = message;
  Py_RETURN_TRUE;
}

static PyObject* message_address(PyObject* self, void* ignored) {
  (void)ignored;
  lwmq_message* message = message_of(self);
  return message == NULL ? NULL : PyLong_FromVoidPtr(message);
}

static PyMethodDef message_methods[] = {
    {"tobytes", message_tobytes, METH_NOARGS, "A copy of all frames, one after the other."},
    {"__bytes__", message_tobytes, METH_NOARGS, NULL},
    {"_frames", message_frames, METH_O, "The frames from this place on, which is not negative."},
    {"_take", message_take, METH_O, "Takes the native message at this address. May be called once."},
    {"_make", message_make, METH_O,
     "Makes the native message of a list or tuple of short buffers. False: something else, or too long."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef message_attributes[] = {
    {"_address", message_address, NULL, "The address of the native message, which this object keeps.", NULL},
    {NULL, NULL, NULL, NULL, NULL}};
static PyType_Slot message_slots[] = {{Py_tp_dealloc, message_free},
                                      {Py_tp_new, PyType_GenericNew},
                                      {Py_tp_methods, message_methods},
                                      {Py_tp_getset, message_attributes},
                                      {Py_mp_length, message_length},
                                      {Py_mp_subscript, message_item},
                                      {0, NULL}};
static PyType_Spec message_spec = {
    .name = "lwmq_spark._native_messages.Message",
    .basicsize = sizeof(Message),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_BASETYPE,
    .slots = message_slots,
};
static PyTypeObject* MessageType;

static PyObject *usable_, *address_, *number_; /* names */

/* ---- Calls --------------------------------------------------------------------------------------------- */

static PyObject* object_of(PyTypeObject* type, lwmq_message* message) {
  PyObject* object = PyType_GenericAlloc(type, 0);
  if (object == NULL) {
    lwmq_message_destroy(message);
    return NULL;
  }
  ((Message*)object)->message = message;
  return object;
}

static PyTypeObject* checked_type(PyObject* type) {
  if (PyType_Check(type) && PyType_IsSubtype((PyTypeObject*)type, MessageType)) return (PyTypeObject*)type;
  PyErr_SetString(PyExc_TypeError, "a subclass of Message is needed");
  return NULL;
}

/* receive(channel, timeout_ms, type): a message, or the status as an int. */
static PyObject* receive(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "receive(channel, timeout_ms, type)");
  lwmq_channel* channel = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[1]);
  PyTypeObject* type = checked_type(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  lwmq_message* message = NULL;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS status = lwmq_channel_receive(channel, (uint32_t)timeout_ms, &message);
  Py_END_ALLOW_THREADS return status == LWMQ_OK ? object_of(type, message) : PyLong_FromLong(status);
}

/* receive_many(channel, limit, timeout_ms, type): a list of messages, or the status as an int. */
static PyObject* receive_many(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4) return PyErr_Format(PyExc_TypeError, "receive_many(channel, limit, timeout_ms, type)");
  lwmq_channel* channel = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long limit = PyLong_AsUnsignedLong(arguments[1]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[2]);
  PyTypeObject* type = checked_type(arguments[3]);
  if (PyErr_Occurred()) return NULL;
  if (limit > UINT32_MAX) return PyErr_Format(PyExc_ValueError, "a limit of %lu messages", limit);
  lwmq_message** messages = PyMem_New(lwmq_message*, limit);
  if (messages == NULL) return PyErr_NoMemory();
  uint32_t received = 0;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS status =
      lwmq_channel_receive_many(channel, (uint32_t)limit, (uint32_t)timeout_ms, messages, &received);
  Py_END_ALLOW_THREADS PyObject* result = status != LWMQ_OK ? PyLong_FromLong(status) : PyList_New(received);
  for (uint32_t i = 0; status == LWMQ_OK && i < received; ++i) {
    PyObject* object = result != NULL ? object_of(type, messages[i]) : NULL;
    if (object != NULL) {
      PyList_SetItem(result, i, object);
    } else if (result != NULL) {
      Py_CLEAR(result); /* object_of has destroyed this one */
    } else {
      lwmq_message_destroy(messages[i]);
    }
  }
  PyMem_Free(messages);
  return result;
}

static PyObject* bytes_of(const lwmq_lent* lent) {
  if (lent->message != NULL) return joined_frames(lent->message);
  return PyBytes_FromStringAndSize(lent->data, (Py_ssize_t)lent->bytes);
}

/* receive_bytes(channel, limit, timeout_ms): a list of bytes, or the status as an int. */
static PyObject* receive_bytes(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "receive_bytes(channel, limit, timeout_ms)");
  lwmq_channel* channel = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long limit = PyLong_AsUnsignedLong(arguments[1]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  if (limit == 0 || limit > UINT32_MAX)
    return PyErr_Format(PyExc_ValueError, "a limit of %lu messages", limit);
  lwmq_loan* loan = NULL;
  if (lwmq_loan_create((uint32_t)limit, &loan) != LWMQ_OK) return PyErr_NoMemory();
  const lwmq_lent* lent = NULL;
  uint32_t received = 0;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS status =
      lwmq_channel_receive_loan(channel, (uint32_t)timeout_ms, loan, &lent, &received);
  Py_END_ALLOW_THREADS PyObject* result = status != LWMQ_OK ? PyLong_FromLong(status) : PyList_New(received);
  for (uint32_t i = 0; status == LWMQ_OK && result != NULL && i < received; ++i) {
    PyObject* bytes = bytes_of(&lent[i]);
    if (bytes != NULL) {
      PyList_SetItem(result, i, bytes);
    } else {
      Py_CLEAR(result);
    }
  }
  lwmq_loan_destroy(loan);
  return result;
}

/* ---- Calls that keep the GIL --------------------------------------------------------------------------- */

/* 1: `answer`, which is True, False or NULL with an error, is `wanted`. Takes `answer`. */
static int is(PyObject* answer, PyObject* wanted) {
  Py_XDECREF(answer); /* True and False live for ever */
  return answer == wanted;
}

static PyObject* not_now(void) {
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* Whether the handle is usable and no thread is inside the turn; an error may be set. A call that runs no
 * Python code need not enter the turn: no other thread runs before it is over. */
static int is_free_now(PyObject* handle, PyObject* turn) {
  return is_turn(turn) && !turn_is_taken(turn) && is(PyObject_GetAttr(handle, usable_), Py_True);
}

/* The native object of such a handle. NULL: not now, or an error. */
static void* native_now(PyObject* handle, PyObject* turn) {
  PyObject* number = is_free_now(handle, turn) ? PyObject_GetAttr(handle, address_) : NULL;
  if (number == NULL) return NULL;
  void* native = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return native;
}

/* receive_now(handle, turn, type): a message, the status as an int, or None: not now. */
static PyObject* receive_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "receive_now(handle, turn, type)");
  PyTypeObject* type = checked_type(arguments[2]);
  if (type == NULL) return NULL;
  lwmq_channel* channel = native_now(arguments[0], arguments[1]);
  if (channel == NULL) return not_now();
  lwmq_message* message = NULL;
  const lwmq_status status = lwmq_channel_receive(channel, 0, &message);
  return status == LWMQ_OK ? object_of(type, message) : PyLong_FromLong(status);
}

enum { kLooksNow = 256 }; /* channels that have nothing, before other threads get the GIL */

/* Whether no thread uses a channel now. `member` is (handle, turn, channel), as in the dict of a selector.
 * -1: an error is set. */
static int is_unused_now(PyObject* member) {
  if (!PyTuple_CheckExact(member) || PyTuple_Size(member) != 3) {
    PyErr_SetString(PyExc_TypeError, "select_now: a member is (handle, turn, channel)");
    return -1;
  }
  const int unused = is_free_now(PyTuple_GetItem(member, 0), PyTuple_GetItem(member, 1));
  return PyErr_Occurred() ? -1 : unused;
}

/* select_now(handle, turn, members, type). Returns one of
 *     (channel, message)
 *     channel             it may have a message, but another thread uses it
 *     [channel, status]   a receive has failed
 *     True                a client waits at a listener
 *     an int              the status of the selector
 *     None                not now */
static PyObject* select_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !PyDict_CheckExact(arguments[2]))
    return PyErr_Format(PyExc_TypeError, "select_now(handle, turn, members, type)");
  PyTypeObject* type = checked_type(arguments[3]);
  if (type == NULL) return NULL;
  lwmq_selector* selector = native_now(arguments[0], arguments[1]);
  if (selector == NULL) return not_now();
  for (int looks = 0; looks < kLooksNow; ++looks) {
    lwmq_channel* channel = NULL;
    lwmq_status status = lwmq_selector_wait(selector, 0, &channel);
    if (status != LWMQ_OK) return PyLong_FromLong(status);
    if (channel == NULL) Py_RETURN_TRUE;
    PyObject* key = PyLong_FromVoidPtr(channel);
    PyObject* member = key != NULL ? PyDict_GetItemWithError(arguments[2], key) : NULL;
    Py_XDECREF(key);
    if (member == NULL && PyErr_Occurred()) return NULL;
    if (member == NULL) continue; /* it was removed just now */
    const int unused = is_unused_now(member);
    if (unused < 0) return NULL;
    PyObject* object = PyTuple_GetItem(member, 2);
    if (!unused) return Py_NewRef(object);
    Py_INCREF(object);
    lwmq_message* message = NULL;
    status = lwmq_selector_take(selector, &message);
    if (status == LWMQ_OK) return Py_BuildValue("(NN)", object, object_of(type, message));
    if (status != LWMQ_E_EMPTY) return Py_BuildValue("[Ni]", object, (int)status);
    Py_DECREF(object);
  }
  return PyLong_FromLong(LWMQ_E_INTERRUPTED);
}

/* post_now(handle, turn, queue, frames): the status. None: not now; or `frames` is neither bytes nor a list
 * or tuple of buffers, or is too long. */
static PyObject* post_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !is_turn(arguments[1]))
    return PyErr_Format(PyExc_TypeError, "post_now(handle, turn, queue, frames)");
  PyObject* frames = arguments[3];
  const int is_one = PyBytes_CheckExact(frames);
  char* data = NULL;
  Py_ssize_t bytes = 0;
  if (is_one && (PyBytes_AsStringAndSize(frames, &data, &bytes) < 0 || bytes > kBytesNow)) return not_now();
  lwmq_send_queue* queue = PyLong_AsVoidPtr(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  lwmq_message* message = is_one ? NULL : message_of_frames(frames);
  if (!is_one && message == NULL) return not_now();
  PyObject* status = NULL;
  /* A post may run call-backs of messages that it ships, and other threads run meanwhile. */
  if (turn_try_enter(arguments[1])) {
    if (is(PyObject_GetAttr(arguments[0], usable_), Py_True))
      status = PyLong_FromLong(is_one ? lwmq_send_queue_post_bytes(queue, data, (uint64_t)bytes)
                                      : lwmq_send_queue_post(queue, &message));
    turn_leave(arguments[1]);
  }
  lwmq_message_destroy(message); /* unless it was taken */
  return status != NULL ? status : not_now();
}

enum { kManyBytesNow = 1 << 20 };

/* The contents of a tuple of bytes; free the array with PyMem_Free. NULL: an error, or the tuple is empty,
 * has something else or too much. */
static lwmq_bytes* bytes_now(PyObject* frames, Py_ssize_t count) {
  lwmq_bytes* array = count > 0 ? PyMem_New(lwmq_bytes, (size_t)count) : NULL;
  Py_ssize_t left = kManyBytesNow;
  for (Py_ssize_t i = 0; array != NULL && i < count; ++i) {
    PyObject* frame = PyTuple_GetItem(frames, i);
    char* data = NULL;
    Py_ssize_t bytes = kManyBytesNow + 1;
    if (PyBytes_CheckExact(frame)) PyBytes_AsStringAndSize(frame, &data, &bytes);
    if (bytes > left) {
      PyMem_Free(array);
      return NULL;
    }
    left -= bytes;
    array[i] = (lwmq_bytes){data, (uint64_t)bytes};
  }
  return array;
}

/* post_many_now(handle, turn, queue, frames): the status. None: not now; or `frames` is no list or tuple of
 * bytes, or is too much. */
static PyObject* post_many_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !is_turn(arguments[1]))
    return PyErr_Format(PyExc_TypeError, "post_many_now(handle, turn, queue, frames)");
  PyObject* frames = arguments[3];
  if (!PyList_CheckExact(frames) && !PyTuple_CheckExact(frames)) Py_RETURN_NONE;
  lwmq_send_queue* queue = PyLong_AsVoidPtr(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  frames = PySequence_Tuple(frames); /* a post may run Python code, which may change a list */
  if (frames == NULL) return NULL;
  const Py_ssize_t frame_count = PyTuple_Size(frames);
  lwmq_bytes* array = bytes_now(frames, frame_count);
  PyObject* status = NULL;
  if (array != NULL && turn_try_enter(arguments[1])) {
    uint64_t posted = 0;
    if (is(PyObject_GetAttr(arguments[0], usable_), Py_True))
      status = PyLong_FromLong(lwmq_send_queue_post_many(queue, array, (uint64_t)frame_count, &posted));
    turn_leave(arguments[1]);
  }
  PyMem_Free(array);
  Py_DECREF(frames);
  return status != NULL ? status : not_now();
}

/* ---- Requests ------------------------------------------------------------------------------------------ */

/* requests_submit(requests, timeout_ms, will_wait, frames, replies, reply): the status as an int. None:
 * `frames` is neither short bytes, nor a list or tuple of short buffers, nor a message with the head of a
 * request. With LWMQ_OK, reply._number is set and replies[number] is the reply. Both are set in this call,
 * which keeps the GIL, so that no other thread learns of the outcome before. */
static PyObject* requests_submit(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 6 || !PyDict_CheckExact(arguments[4])) {
    return PyErr_Format(PyExc_TypeError,
                        "requests_submit(requests, timeout_ms, will_wait, frames, replies, reply)");
  }
  lwmq_requests* requests = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[1]);
  const int will_wait = PyObject_IsTrue(arguments[2]);
  PyObject* frames = arguments[3];
  if (PyErr_Occurred()) return NULL;
  lwmq_message* message = NULL;
  lwmq_status status;
  if (PyObject_TypeCheck(frames, MessageType)) {
    if (message_of(frames) == NULL) return NULL;
    status = lwmq_message_reference(message_of(frames), &message);
  } else {
    PyObject* list = PyBytes_CheckExact(frames) ? PyTuple_Pack(1, frames) : Py_NewRef(frames);
    if (list == NULL) return NULL;
    status = lwmq_requests_make(requests, &message);
    const int fits = status == LWMQ_OK && (PyList_CheckExact(list) || PyTuple_CheckExact(list)) &&
                     append_all(message, list);
    Py_DECREF(list);
    if (status == LWMQ_OK && !fits) {
      lwmq_message_destroy(message);
      if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception)) PyErr_Clear();
      return not_now();
    }
  }
  uint64_t number = 0;
  if (status == LWMQ_OK)
    status = will_wait ? lwmq_requests_begin(requests, &message, (uint32_t)timeout_ms, &number)
                       : lwmq_requests_submit(requests, &message, (uint32_t)timeout_ms, &number);
  lwmq_message_destroy(message); /* unless it was taken */
  if (status != LWMQ_OK) return PyLong_FromLong(status);
  PyObject* key = PyLong_FromUnsignedLongLong(number);
  const int is_noted = key != NULL && PyObject_SetAttr(arguments[5], number_, key) == 0 &&
                       PyDict_SetItem(arguments[4], key, arguments[5]) == 0;
  Py_XDECREF(key);
  return is_noted ? PyLong_FromLong(LWMQ_OK) : NULL;
}

/* An outcome as a Python object: the message of the reply; or (status, text, message), whose message is that
 * of a handler's failure, or None. Takes the message. The text is lwmq_last_error. */
static PyObject* outcome_of(lwmq_status status, lwmq_message* message, PyTypeObject* type) {
  PyObject* object = message != NULL ? object_of(type, message) : Py_NewRef(Py_None);
  if (status == LWMQ_OK || object == NULL) return object;
  const char* text = lwmq_last_error(); /* a peer may have written part of it */
  return Py_BuildValue("(iNN)", status, PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"),
                       object);
}

/* Takes `object`. NULL, with an error, is allowed. */
static int append_to(PyObject* list, PyObject* object) {
  const int status = object != NULL ? PyList_Append(list, object) : -1;
  Py_XDECREF(object);
  return status;
}

/* requests_wait(requests, number, timeout_ms, type, came): waits for the outcome of one request, and appends
 * it to the list `came`. Appends nothing if lwmq_requests_wait has no outcome to report. A list, because the
 * result of a call is lost if a signal's handler raises right after it. */
static PyObject* requests_wait(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 5 || !PyList_CheckExact(arguments[4]))
    return PyErr_Format(PyExc_TypeError, "requests_wait(requests, number, timeout_ms, type, came)");
  lwmq_requests* requests = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long long number = PyLong_AsUnsignedLongLong(arguments[1]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[2]);
  PyTypeObject* type = checked_type(arguments[3]);
  if (PyErr_Occurred()) return NULL;
  lwmq_message* reply = NULL;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS status = lwmq_requests_wait(requests, number, (uint32_t)timeout_ms, &reply);
  Py_END_ALLOW_THREADS if (status == LWMQ_E_EMPTY || status == LWMQ_E_INTERRUPTED ||
                           status == LWMQ_E_NO_MEMORY) Py_RETURN_NONE;
  return append_to(arguments[4], outcome_of(status, reply, type)) == 0 ? Py_NewRef(Py_None) : NULL;
}

enum { kOutcomesAtOnce = 256 };

/* requests_next(requests, timeout_ms, type, came): waits for the next outcomes, and appends (number, outcome)
 * of each to the list `came`. Number 0: the outcome concerns no request. */
static PyObject* requests_next(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !PyList_CheckExact(arguments[3]))
    return PyErr_Format(PyExc_TypeError, "requests_next(requests, timeout_ms, type, came)");
  lwmq_requests* requests = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[1]);
  PyTypeObject* type = checked_type(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  uint64_t numbers[kOutcomesAtOnce];
  lwmq_message* replies[kOutcomesAtOnce];
  int told = 0;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS do {
    numbers[told] = 0;
    replies[told] = NULL;
    status =
        lwmq_requests_next(requests, told == 0 ? (uint32_t)timeout_ms : 0, &numbers[told], &replies[told]);
  }
  while (status == LWMQ_OK && ++told < kOutcomesAtOnce)
    ;
  Py_END_ALLOW_THREADS int failed = 0;
  for (int i = 0; i < told; ++i) {
    PyObject* reply = object_of(type, replies[i]);
    if (failed != 0 || reply == NULL) {
      failed = -1;
      Py_XDECREF(reply);
    } else {
      failed = append_to(arguments[3], Py_BuildValue("(KN)", numbers[i], reply));
    }
  }
  if (failed != 0) return NULL;
  if (status != LWMQ_OK && (numbers[told] != 0 || status >= LWMQ_E_INVALID)) {
    PyObject* outcome = outcome_of(status, replies[told], type);
    if (outcome == NULL || append_to(arguments[3], Py_BuildValue("(KN)", numbers[told], outcome)) != 0)
      return NULL;
  }
  Py_RETURN_NONE;
}

/* reply_head(message): the first frame of the reply to a request, as bytes. None: the message is no request.
 */
static PyObject* reply_head(PyObject* module, PyObject* request) {
  (void)module;
  if (checked_type((PyObject*)Py_TYPE(request)) == NULL || message_of(request) == NULL) return NULL;
  lwmq_message* reply = NULL;
  const lwmq_status status = lwmq_reply_make(message_of(request), &reply);
  if (status == LWMQ_E_NO_MEMORY) return PyErr_NoMemory();
  if (status != LWMQ_OK) Py_RETURN_NONE;
  PyObject* head = joined_frames(reply);
  lwmq_message_destroy(reply);
  return head;
}

static PyMethodDef functions[] = {
    {"receive_now", (PyCFunction)(void (*)(void))receive_now, METH_FASTCALL, NULL},
    {"select_now", (PyCFunction)(void (*)(void))select_now, METH_FASTCALL, NULL},
    {"post_now", (PyCFunction)(void (*)(void))post_now, METH_FASTCALL, NULL},
    {"post_many_now", (PyCFunction)(void (*)(void))post_many_now, METH_FASTCALL, NULL},
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, NULL},
    {"receive_many", (PyCFunction)(void (*)(void))receive_many, METH_FASTCALL, NULL},
    {"receive_bytes", (PyCFunction)(void (*)(void))receive_bytes, METH_FASTCALL, NULL},
    {"requests_submit", (PyCFunction)(void (*)(void))requests_submit, METH_FASTCALL, NULL},
    {"requests_wait", (PyCFunction)(void (*)(void))requests_wait, METH_FASTCALL, NULL},
    {"requests_next", (PyCFunction)(void (*)(void))requests_next, METH_FASTCALL, NULL},
    {"reply_head", reply_head, METH_O, NULL},
    {NULL, NULL, 0, NULL}};

static struct PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                                        "_native_messages",
                                        "Messages as Python objects.",
                                        -1,
                                        functions,
                                        NULL,
                                        NULL,
                                        NULL,
                                        NULL};

PyMODINIT_FUNC PyInit__native_messages(void) {
  usable_ = PyUnicode_InternFromString("usable");
  address_ = PyUnicode_InternFromString("address");
  number_ = PyUnicode_InternFromString("_number");
  if (!usable_ || !address_ || !number_) return NULL;
  FrameType = (PyTypeObject*)PyType_FromSpec(&frame_spec);
  PyObject* module = FrameType != NULL ? PyModule_Create(&definition) : NULL;
  if (module == NULL) return NULL;
  MessageType = add_type(module, &message_spec);
  if (MessageType == NULL || add_turns(module) < 0) Py_CLEAR(module);
  return module;
}
