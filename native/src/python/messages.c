/* lwmq_spark._native_messages: messages as Python objects, for the calls that are made once per message.
 * Everything else of lwmq.h goes through cffi; a wrapper that is made and unmade by it costs more than the
 * message does.
 *
 *     Message   owns one lwmq_message, and is the base of lwmq_spark.Message
 *     Frame     where a memoryview of a frame gets its bytes: holds its Message
 *     CallLock, CallLocks, CallCount, Condition   see call_lock.h
 *
 * Whatever may wait runs without the GIL. What ends in _now does not wait and keeps it, which costs less than
 * to give it away.
 *
 * All of it is in Python's limited API: one build serves each Python from 3.11 on. */
#include <lwmq/lwmq.h>
#include <string.h>

#include "call_lock.h"

typedef struct {
  PyObject_HEAD lwmq_message* message; /* NULL until take, or receive, gave one */
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

/* What the message is; sets an error where there is none yet. */
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

/* All frames, one after the other. */
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
  kBytesNow = 16384,            /* of one frame: a longer copy is not made with the GIL in hand */
  kAllBytesNow = 64 * kBytesNow /* of all frames of a message */
};

/* Whether what has this format (PEP 3118, or null) is Python objects, in part; names of fields stand between
 * colons. */
static int holds_objects(const char* format) {
  while (format != NULL && *format != '\0' && *format != 'O') {
    if (*format == ':' && (format = strchr(format + 1, ':')) == NULL) return 1;
    ++format;
  }
  return format != NULL && *format == 'O';
}

/* Of an exact list or tuple; borrowed. */
static PyObject* item_of(PyObject* sequence, Py_ssize_t place) {
  return PyList_CheckExact(sequence) ? PyList_GetItem(sequence, place) : PyTuple_GetItem(sequence, place);
}

/* A copy of each frame. False: one of them is no buffer, or they are too long; an error may be set. A buffer
 * is asked for all that memoryview() asks for, so that both take the same; whoever exports one may change the
 * list. */
static int append_all(lwmq_message* message, PyObject* frames) {
  Py_ssize_t left = kAllBytesNow;
  for (Py_ssize_t i = 0; i < PySequence_Size(frames); ++i) {
    PyObject* frame = Py_NewRef(item_of(frames, i));
    Py_buffer view;
    const int got = PyObject_GetBuffer(frame, &view, PyBUF_FULL_RO) == 0;
    Py_DECREF(frame);
    if (!got) return 0;
    const int holds_bytes = !holds_objects(view.format); /* else: addresses */
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

/* Of a list or tuple of short buffers. NULL: they are something else, or too long; or an error, if one is
 * set.
 */
static lwmq_message* message_of_frames(PyObject* frames) {
  if (!PyList_CheckExact(frames) && !PyTuple_CheckExact(frames)) return NULL;
  const Py_ssize_t count = PySequence_Size(frames);
  lwmq_message* message = NULL;
  if (count > UINT16_MAX || lwmq_message_create((uint32_t)count, &message) != LWMQ_OK) return NULL;
  if (append_all(message, frames)) return message;
  lwmq_message_destroy(message);
  if (PyErr_Occurred() && PyErr_ExceptionMatches(PyExc_Exception))
    PyErr_Clear(); /* else a KeyboardInterrupt */
  return NULL;
}

static PyObject* message_make(PyObject* self, PyObject* frames) {
  Message* made = (Message*)self;
  lwmq_message* message = made->message == NULL ? message_of_frames(frames) : NULL;
  if (message == NULL && PyErr_Occurred()) return NULL;
  if (message == NULL) Py_RETURN_FALSE;
  if (made->message != NULL) { /* since: whoever exports a frame may do anything */
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

/* What follows changes the list of frames, or reads it: with the GIL, since any thread may look at them. */

static PyObject* message_set_timestamp(PyObject* self, PyObject* arguments) {
  unsigned int index = 0;
  int source = 0;
  unsigned long long ticks = 0;
  if (!PyArg_ParseTuple(arguments, "IiK:_set_timestamp", &index, &source, &ticks)) return NULL;
  lwmq_message* message = message_of(self);
  return message == NULL ? NULL : PyLong_FromLong(lwmq_message_set_timestamp(message, index, source, ticks));
}

static PyObject* message_ticks(PyObject* self, PyObject* place) {
  const unsigned long index = PyLong_AsUnsignedLong(place);
  if (PyErr_Occurred()) return NULL;
  const lwmq_message* message = message_of(self);
  if (message == NULL) return NULL;
  uint64_t ticks = 0;
  lwmq_message_timestamp(message, (uint32_t)index, &ticks);
  return PyLong_FromUnsignedLongLong(ticks);
}

static PyObject* message_reference(PyObject* self, PyObject* unused) {
  (void)unused;
  lwmq_message* message = message_of(self);
  if (message == NULL) return NULL;
  lwmq_message* reference = NULL;
  if (lwmq_message_reference(message, &reference) != LWMQ_OK) return PyErr_NoMemory();
  return PyLong_FromVoidPtr(reference);
}

static PyMethodDef message_methods[] = {
    {"tobytes", message_tobytes, METH_NOARGS, "A copy of all frames, one after the other."},
    {"__bytes__", message_tobytes, METH_NOARGS, NULL},
    {"_frames", message_frames, METH_O, "Those from this place on, which is not negative."},
    {"_set_timestamp", message_set_timestamp, METH_VARARGS, "(index, source, ticks): the status."},
    {"_ticks", message_ticks, METH_O, "Of the frame at this place, which is there; 0: it has none."},
    {"_reference", message_reference, METH_NOARGS,
     "The address of a second native message on the same frames, for who takes one."},
    {"_take", message_take, METH_O, "Takes the native message at this address. Once."},
    {"_make", message_make, METH_O,
     "Makes the native message of a list or tuple of short buffers. False: they are something else, or too "
     "long."},
    {NULL, NULL, 0, NULL}};
static PyGetSetDef message_attributes[] = {
    {"_address", message_address, NULL, "Of the native message, which stays ours.", NULL},
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

static PyObject *usable_, *address_, *append_; /* names */

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

/* Of a failure that says more than that nothing has come yet. */
static PyObject* status_and_text(lwmq_status status) {
  const char* text = lwmq_last_error(); /* a peer may have written part of it */
  return Py_BuildValue("(iN)", status, PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace"));
}

static int append(PyObject* came, PyObject* object) {
  if (object == NULL) return -1;
  PyObject* none = PyObject_CallMethodObjArgs(came, append_, object, NULL);
  Py_DECREF(object);
  Py_XDECREF(none);
  return none != NULL ? 0 : -1;
}

/* receive_into(channel, timeout_ms, type, came): appends messages to the deque `came`, or what has ended a
 * receive, a status and its text. Python code, a signal's handler among it, runs before or behind that. */
static PyObject* receive_into(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4) return PyErr_Format(PyExc_TypeError, "receive_into(channel, timeout_ms, type, came)");
  lwmq_channel* channel = PyLong_AsVoidPtr(arguments[0]);
  const unsigned long timeout_ms = PyLong_AsUnsignedLong(arguments[1]);
  PyTypeObject* type = checked_type(arguments[2]);
  PyObject* came = arguments[3];
  if (PyErr_Occurred()) return NULL;
  lwmq_message* messages[256];
  uint32_t received = 0;
  lwmq_status status;
  Py_BEGIN_ALLOW_THREADS status =
      lwmq_channel_receive_many(channel, 256, (uint32_t)timeout_ms, messages, &received);
  Py_END_ALLOW_THREADS int failed = 0;
  for (uint32_t i = 0; status == LWMQ_OK && i < received; ++i) {
    if (failed == 0) {
      failed = append(came, object_of(type, messages[i]));
    } else {
      lwmq_message_destroy(messages[i]);
    }
  }
  const int is_end = status != LWMQ_OK && status != LWMQ_E_EMPTY && status != LWMQ_E_TIMED_OUT &&
                     status != LWMQ_E_INTERRUPTED;
  if (is_end) failed = append(came, status_and_text(status));
  return failed == 0 ? PyLong_FromLong(is_end ? LWMQ_OK : status) : NULL;
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

/* Of what is True or False, or NULL with an error: 1 where it is `wanted`. Takes it. */
static int is(PyObject* answer, PyObject* wanted) {
  Py_XDECREF(answer); /* both live for ever */
  return answer == wanted;
}

static PyObject* not_now(void) {
  if (PyErr_Occurred()) return NULL;
  Py_RETURN_NONE;
}

/* Whether the handle is usable and nobody is inside of its lock, no CallCount; an error may be set. It is
 * enough to look before a call that does not call back: nobody else runs before it is over. */
static int is_free_now(PyObject* handle, PyObject* lock) {
  return is_call_lock(lock) && !call_lock_is_taken(lock) && is(PyObject_GetAttr(handle, usable_), Py_True);
}

/* What such a handle has. NULL: not now, or an error. */
static void* native_now(PyObject* handle, PyObject* lock) {
  PyObject* number = is_free_now(handle, lock) ? PyObject_GetAttr(handle, address_) : NULL;
  if (number == NULL) return NULL;
  void* native = PyLong_AsVoidPtr(number);
  Py_DECREF(number);
  return native;
}

/* receive_now(handle, lock, type): a message, the status as an int, or None: not now. */
static PyObject* receive_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 3) return PyErr_Format(PyExc_TypeError, "receive_now(handle, lock, type)");
  PyTypeObject* type = checked_type(arguments[2]);
  if (type == NULL) return NULL;
  lwmq_channel* channel = native_now(arguments[0], arguments[1]);
  if (channel == NULL) return not_now();
  lwmq_message* message = NULL;
  const lwmq_status status = lwmq_channel_receive(channel, 0, &message);
  return status == LWMQ_OK ? object_of(type, message) : PyLong_FromLong(status);
}

enum { kLooksNow = 256 }; /* at channels that have nothing, before others have the GIL */

/* Of (handle, lock, channel), what a selector's dict has of a channel: whether it is nobody else's just now.
 * -1 with an error. */
static int is_ours_now(PyObject* member) {
  if (!PyTuple_CheckExact(member) || PyTuple_Size(member) != 3) {
    PyErr_SetString(PyExc_TypeError, "select_now: a member is (handle, lock, channel)");
    return -1;
  }
  const int ours = is_free_now(PyTuple_GetItem(member, 0), PyTuple_GetItem(member, 1));
  return PyErr_Occurred() ? -1 : ours;
}

/* select_now(handle, lock, members, type): (channel, message); a channel that may have one, and whose receive
 * may wait for others; [channel, status] of a receive that has failed; True: a client waits at a listener;
 * the status of the selector as an int; or None: not now. */
static PyObject* select_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !PyDict_CheckExact(arguments[2]))
    return PyErr_Format(PyExc_TypeError, "select_now(handle, lock, members, type)");
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
    if (member == NULL) continue; /* was removed just now */
    const int ours = is_ours_now(member);
    if (ours < 0) return NULL;
    PyObject* object = PyTuple_GetItem(member, 2);
    if (!ours) return Py_NewRef(object);
    Py_INCREF(object);
    lwmq_message* message = NULL;
    status = lwmq_selector_take(selector, &message);
    if (status == LWMQ_OK) return Py_BuildValue("(NN)", object, object_of(type, message));
    if (status != LWMQ_E_EMPTY) return Py_BuildValue("[Ni]", object, (int)status);
    Py_DECREF(object);
  }
  return PyLong_FromLong(LWMQ_E_INTERRUPTED);
}

/* post_now(handle, lock, queue, frames): the status, or None: not now, or the frames are no bytes, no list or
 * tuple of buffers, or too long. */
static PyObject* post_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !is_call_lock(arguments[1]))
    return PyErr_Format(PyExc_TypeError, "post_now(handle, lock, queue, frames)");
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
  /* A post may call back, for other messages that it ships, and then others run. */
  if (call_lock_try_enter(arguments[1])) {
    if (is(PyObject_GetAttr(arguments[0], usable_), Py_True))
      status = PyLong_FromLong(is_one ? lwmq_send_queue_post_bytes(queue, data, (uint64_t)bytes)
                                      : lwmq_send_queue_post(queue, &message));
    call_lock_leave(arguments[1]);
  }
  lwmq_message_destroy(message); /* where nobody took it */
  return status != NULL ? status : not_now();
}

enum { kManyBytesNow = 1 << 20 };

/* What a tuple of bytes has, for PyMem_Free. NULL: an error, or it holds something else, nothing or too
 * much. */
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

/* post_many_now(handle, lock, queue, frames): the status, or None: not now, or the frames are no list or
 * tuple of bytes, or too much. */
static PyObject* post_many_now(PyObject* module, PyObject* const* arguments, Py_ssize_t count) {
  (void)module;
  if (count != 4 || !is_call_lock(arguments[1]))
    return PyErr_Format(PyExc_TypeError, "post_many_now(handle, lock, queue, frames)");
  PyObject* frames = arguments[3];
  if (!PyList_CheckExact(frames) && !PyTuple_CheckExact(frames)) Py_RETURN_NONE;
  lwmq_send_queue* queue = PyLong_AsVoidPtr(arguments[2]);
  if (PyErr_Occurred()) return NULL;
  frames = PySequence_Tuple(frames); /* a post may call back, and then others change a list */
  if (frames == NULL) return NULL;
  const Py_ssize_t frame_count = PyTuple_Size(frames);
  lwmq_bytes* array = bytes_now(frames, frame_count);
  PyObject* status = NULL;
  if (array != NULL && call_lock_try_enter(arguments[1])) {
    uint64_t posted = 0;
    if (is(PyObject_GetAttr(arguments[0], usable_), Py_True))
      status = PyLong_FromLong(lwmq_send_queue_post_many(queue, array, (uint64_t)frame_count, &posted));
    call_lock_leave(arguments[1]);
  }
  PyMem_Free(array);
  Py_DECREF(frames);
  return status != NULL ? status : not_now();
}

static PyMethodDef functions[] = {
    {"receive_now", (PyCFunction)(void (*)(void))receive_now, METH_FASTCALL, NULL},
    {"select_now", (PyCFunction)(void (*)(void))select_now, METH_FASTCALL, NULL},
    {"post_now", (PyCFunction)(void (*)(void))post_now, METH_FASTCALL, NULL},
    {"post_many_now", (PyCFunction)(void (*)(void))post_many_now, METH_FASTCALL, NULL},
    {"receive", (PyCFunction)(void (*)(void))receive, METH_FASTCALL, NULL},
    {"receive_many", (PyCFunction)(void (*)(void))receive_many, METH_FASTCALL, NULL},
    {"receive_into", (PyCFunction)(void (*)(void))receive_into, METH_FASTCALL, NULL},
    {"receive_bytes", (PyCFunction)(void (*)(void))receive_bytes, METH_FASTCALL, NULL},
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
  append_ = PyUnicode_InternFromString("append");
  if (!usable_ || !address_ || !append_) return NULL;
  FrameType = (PyTypeObject*)PyType_FromSpec(&frame_spec);
  PyObject* module = FrameType != NULL ? PyModule_Create(&definition) : NULL;
  if (module == NULL) return NULL;
  MessageType = add_type(module, &message_spec);
  if (MessageType == NULL || add_call_locks(module) < 0) Py_CLEAR(module);
  return module;
}
