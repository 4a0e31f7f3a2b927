#include "call_lock.h"

#include <stddef.h>
#include <time.h>

/* ---- Types ----------------------------------------------------------------------------------------- */

void free_object(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
  Py_DECREF(type);
}

PyTypeObject* add_type(PyObject* module, PyType_Spec* spec) {
  PyTypeObject* type = (PyTypeObject*)PyType_FromSpec(spec);
  return type != NULL && PyModule_AddType(module, type) == 0 ? type : NULL;
}

/* ---- Waiting --------------------------------------------------------------------------------------- */

/* A thread that waits, on its stack. */
typedef struct Waiter {
  struct Waiter* next;
  PyThread_type_lock bell; /* closed, until somebody rings */
  int rung;
} Waiter;

static int waiter_init(Waiter* waiter) {
  *waiter = (Waiter){.bell = PyThread_allocate_lock()};
  if (waiter->bell == NULL) {
    PyErr_NoMemory();
    return -1;
  }
  PyThread_acquire_lock(waiter->bell, WAIT_LOCK);
  return 0;
}

static void waiter_free(Waiter* waiter) {
  if (!waiter->rung) PyThread_release_lock(waiter->bell); /* is freed open */
  PyThread_free_lock(waiter->bell);
}

static void ring(Waiter* waiter) {
  if (waiter == NULL || waiter->rung) return;
  waiter->rung = 1;
  PyThread_release_lock(waiter->bell);
}

/* Of the list that begins at `place`; 0 where it is not there. */
static int take_out(Waiter** place, const Waiter* waiter) {
  while (*place != NULL && *place != waiter) place = &(*place)->next;
  if (*place == NULL) return 0;
  *place = waiter->next;
  return 1;
}

/* Closes the bell again, if it was rung. */
static void hush(Waiter* waiter) {
  if (waiter->rung) PyThread_acquire_lock(waiter->bell, WAIT_LOCK);
  waiter->rung = 0;
}

/* Until it is rung, or `timeout_us` are over, negative for never, or a signal comes: 1. The GIL is given
 * away. A wait that is not `interruptible` leaves signals for later. */
static int wait_for_ring(Waiter* waiter, PY_TIMEOUT_T timeout_us, int interruptible) {
  PyLockStatus status;
  Py_BEGIN_ALLOW_THREADS status = PyThread_acquire_lock_timed(waiter->bell, timeout_us, interruptible);
  Py_END_ALLOW_THREADS if (status == PY_LOCK_ACQUIRED) waiter->rung = 0;
  return status == PY_LOCK_INTR;
}

static PY_TIMEOUT_T now_us(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (PY_TIMEOUT_T)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Of a time of now_us. */
static PY_TIMEOUT_T left_until(PY_TIMEOUT_T end_us) {
  const PY_TIMEOUT_T now = now_us();
  return end_us > now ? end_us - now : 0;
}

/* None and what is very long are -1, for ever; -1 with an error, too. */
static PY_TIMEOUT_T us_of(PyObject* seconds) {
  const double longest = 1e9;
  if (seconds == Py_None) return -1;
  const double given = PyFloat_AsDouble(seconds);
  if (PyErr_Occurred() || given >= longest) return -1;
  return (PY_TIMEOUT_T)(given > 0 ? given * 1e6 : 0);
}

/* ---- CallLock ------------------------------------------------------------------------------------------ */

typedef struct {
  PyObject_HEAD int taken;
  unsigned long owner; /* the thread, while it is taken */
  Waiter* first;       /* in the order in which they came */
} CallLock;

static PyTypeObject* CallLockType;

static void call_lock_take(CallLock* lock) {
  lock->taken = 1;
  lock->owner = PyThread_get_thread_ident();
}

static const char kHeldHere[] =
    "a signal's handler, or a finalizer, wants what the code that it has interrupted holds: raise an "
    "exception there, and do this behind it";

static int is_mine(const CallLock* lock) { return lock->taken && lock->owner == PyThread_get_thread_ident(); }

/* 0: entered; 1: not, until `end_us`, negative for never; -1 with what a signal's handler raised. Such a
 * handler does not run while we are in the queue: it may want to enter itself. */
static int call_lock_wait(CallLock* lock, Waiter* waiter, int interruptible, PY_TIMEOUT_T end_us) {
  while (lock->taken || lock->first != NULL) {
    Waiter** last = &lock->first;
    while (*last != NULL) last = &(*last)->next;
    waiter->next = NULL;
    *last = waiter;
    int signalled = 0;
    PY_TIMEOUT_T left = -1;
    while (!signalled && left != 0 && (lock->taken || lock->first != waiter)) {
      if (end_us >= 0) left = left_until(end_us);
      signalled = wait_for_ring(waiter, left, interruptible);
    }
    const int is_next = !lock->taken && lock->first == waiter;
    take_out(&lock->first, waiter);
    hush(waiter);
    if (is_next && !signalled) break;
    if (!lock->taken) ring(lock->first); /* the ring may have been ours */
    if (signalled && PyErr_CheckSignals() < 0) return -1;
    if (left == 0) return 1;
  }
  call_lock_take(lock);
  return 0;
}

/* As call_lock_wait. */
static int call_lock_enter(CallLock* lock, PY_TIMEOUT_T end_us) {
  if (!lock->taken && lock->first == NULL) {
    call_lock_take(lock);
    return 0;
  }
  if (is_mine(lock)) {
    PyErr_SetString(PyExc_RuntimeError, kHeldHere);
    return -1;
  }
  Waiter waiter;
  if (waiter_init(&waiter) < 0) return -1;
  const int status = call_lock_wait(lock, &waiter, 1, end_us);
  waiter_free(&waiter);
  return status;
}

int is_call_lock(PyObject* object) { return Py_IS_TYPE(object, CallLockType); }

int call_lock_try_enter(PyObject* object) {
  CallLock* lock = (CallLock*)object;
  if (lock->taken) return 0;
  call_lock_take(lock);
  return 1;
}

void call_lock_leave(PyObject* object) {
  CallLock* lock = (CallLock*)object;
  lock->taken = 0;
  ring(lock->first);
}

int call_lock_is_taken(PyObject* lock) { return ((CallLock*)lock)->taken; }

static PyObject* call_lock_with(PyObject* self, PyObject* unused) {
  (void)unused;
  if (call_lock_enter((CallLock*)self, -1) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* call_lock_end_with(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  call_lock_leave(self);
  Py_RETURN_NONE;
}

static PyObject* call_lock_within(PyObject* self, PyObject* seconds);

static PyMethodDef call_lock_methods[] = {
    {"__enter__", call_lock_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))call_lock_end_with, METH_FASTCALL, NULL},
    {"within", call_lock_within, METH_O, "within(seconds): for `with`, which says whether we are inside."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot call_lock_slots[] = {
    {Py_tp_doc,
     "A lock that threads pass in the order they came: one that waits in slices lets the others in."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, call_lock_methods},
    {0, NULL}};
static PyType_Spec call_lock_spec = {
    .name = "lwmq_spark._native_messages.CallLock",
    .basicsize = sizeof(CallLock),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = call_lock_slots,
};

/* ---- Attempt --------------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD PyObject* lock;
  PY_TIMEOUT_T timeout_us; /* negative for never */
  int entered;
} Attempt;

static void attempt_free(PyObject* self) {
  Py_DECREF(((Attempt*)self)->lock);
  free_object(self);
}

static PyObject* attempt_with(PyObject* object, PyObject* unused) {
  (void)unused;
  Attempt* self = (Attempt*)object;
  const PY_TIMEOUT_T end_us = self->timeout_us < 0 ? -1 : now_us() + self->timeout_us;
  const int status = call_lock_enter((CallLock*)self->lock, end_us);
  if (status < 0) return NULL;
  self->entered = status == 0;
  return PyBool_FromLong(self->entered);
}

static PyObject* attempt_end_with(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  Attempt* self = (Attempt*)object;
  if (self->entered) call_lock_leave(self->lock);
  self->entered = 0;
  Py_RETURN_NONE;
}

static PyMethodDef attempt_methods[] = {
    {"__enter__", attempt_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))attempt_end_with, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot attempt_slots[] = {{Py_tp_doc, "What CallLock.within makes, for one `with`."},
                                      {Py_tp_dealloc, attempt_free},
                                      {Py_tp_methods, attempt_methods},
                                      {0, NULL}};
static PyType_Spec attempt_spec = {
    .name = "lwmq_spark._native_messages.Attempt",
    .basicsize = sizeof(Attempt),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = attempt_slots,
};
static PyTypeObject* AttemptType;

static PyObject* call_lock_within(PyObject* self, PyObject* seconds) {
  const PY_TIMEOUT_T timeout_us = us_of(seconds);
  if (PyErr_Occurred()) return NULL;
  Attempt* made = PyObject_New(Attempt, AttemptType);
  if (made == NULL) return NULL;
  made->lock = Py_NewRef(self);
  made->timeout_us = timeout_us;
  made->entered = 0;
  return (PyObject*)made;
}

/* ---- CallLocks ----------------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD PyObject* locks; /* a tuple of CallLock */
} CallLocks;

static PyObject* call_locks_new(PyTypeObject* type, PyObject* arguments, PyObject* keywords) {
  PyObject* locks = NULL;
  if (keywords != NULL || !PyArg_ParseTuple(arguments, "O!:CallLocks", &PyTuple_Type, &locks))
    return PyErr_Occurred() != NULL ? NULL : PyErr_Format(PyExc_TypeError, "CallLocks(locks)");
  for (Py_ssize_t i = 0; i < PyTuple_Size(locks); ++i)
    if (!is_call_lock(PyTuple_GetItem(locks, i)))
      return PyErr_Format(PyExc_TypeError, "item %zd is no CallLock", i);
  CallLocks* self = (CallLocks*)PyType_GenericAlloc(type, 0);
  if (self != NULL) self->locks = Py_NewRef(locks);
  return (PyObject*)self;
}

static void call_locks_free(PyObject* self) {
  Py_DECREF(((CallLocks*)self)->locks);
  free_object(self);
}

static void leave_first(const CallLocks* self, Py_ssize_t count) {
  while (count > 0) call_lock_leave(PyTuple_GetItem(self->locks, --count));
}

static PyObject* call_locks_with(PyObject* object, PyObject* unused) {
  (void)unused;
  const CallLocks* self = (const CallLocks*)object;
  for (Py_ssize_t i = 0; i < PyTuple_Size(self->locks); ++i) {
    if (call_lock_enter((CallLock*)PyTuple_GetItem(self->locks, i), -1) < 0) {
      leave_first(self, i);
      return NULL;
    }
  }
  Py_RETURN_NONE;
}

static PyObject* call_locks_end_with(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  const CallLocks* self = (const CallLocks*)object;
  leave_first(self, PyTuple_Size(self->locks));
  Py_RETURN_NONE;
}

static PyMethodDef call_locks_methods[] = {
    {"__enter__", call_locks_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))call_locks_end_with, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot call_locks_slots[] = {
    {Py_tp_doc, "CallLocks(locks): all of a tuple, taken one after the other."},
    {Py_tp_dealloc, call_locks_free},
    {Py_tp_new, call_locks_new},
    {Py_tp_methods, call_locks_methods},
    {0, NULL}};
static PyType_Spec call_locks_spec = {
    .name = "lwmq_spark._native_messages.CallLocks",
    .basicsize = sizeof(CallLocks),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = call_locks_slots,
};

/* ---- CallCount ----------------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD Py_ssize_t inside, room;
  unsigned long* threads; /* of those inside; one as often as it has entered */
  Waiter* empties;        /* in `empty`; one at most */
} CallCount;

static PyObject* call_count_with(PyObject* self, PyObject* unused) {
  (void)unused;
  CallCount* calls = (CallCount*)self;
  if (calls->inside == calls->room) {
    const Py_ssize_t room = calls->room + 8;
    unsigned long* threads = PyMem_Realloc(calls->threads, (size_t)room * sizeof *threads);
    if (threads == NULL) return PyErr_NoMemory();
    calls->threads = threads;
    calls->room = room;
  }
  calls->threads[calls->inside++] = PyThread_get_thread_ident();
  Py_RETURN_TRUE;
}

/* The place of the caller; -1: it is not inside. */
static Py_ssize_t call_count_place(const CallCount* calls) {
  const unsigned long mine = PyThread_get_thread_ident();
  Py_ssize_t place = calls->inside - 1;
  while (place >= 0 && calls->threads[place] != mine) --place;
  return place;
}

static PyObject* call_count_end_with(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  CallCount* calls = (CallCount*)self;
  const Py_ssize_t place = call_count_place(calls);
  if (place < 0) return PyErr_Format(PyExc_RuntimeError, "not inside of this CallCount");
  calls->threads[place] = calls->threads[--calls->inside];
  if (calls->inside == 0) ring(calls->empties);
  Py_RETURN_NONE;
}

static PyObject* call_count_has_caller(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(call_count_place((CallCount*)self) >= 0);
}

static PyObject* call_count_empty(PyObject* self, PyObject* unused) {
  (void)unused;
  CallCount* calls = (CallCount*)self;
  if (calls->empties != NULL)
    return PyErr_Format(PyExc_RuntimeError, "another thread waits until it is empty");
  if (call_count_place(calls) >= 0) return PyErr_Format(PyExc_RuntimeError, "%s", kHeldHere);
  Waiter waiter;
  if (waiter_init(&waiter) < 0) return NULL;
  calls->empties = &waiter;
  int status = 0;
  while (status == 0 && calls->inside > 0)
    if (wait_for_ring(&waiter, -1, 1)) status = PyErr_CheckSignals();
  calls->empties = NULL;
  waiter_free(&waiter);
  return status == 0 ? Py_NewRef(Py_None) : NULL;
}

static void call_count_dealloc(PyObject* self) {
  PyMem_Free(((CallCount*)self)->threads);
  free_object(self);
}

static PyObject* call_count_within(PyObject* self, PyObject* seconds) {
  (void)seconds;
  return Py_NewRef(self);
}

static PyMethodDef call_count_methods[] = {
    {"__enter__", call_count_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))call_count_end_with, METH_FASTCALL, NULL},
    {"within", call_count_within, METH_O, "As CallLock.within: itself, for it is entered at once."},
    {"empty", call_count_empty, METH_NOARGS,
     "Until nobody is inside; for who sends newcomers away: they come in, find it closed, and leave."},
    {"has_caller", call_count_has_caller, METH_NOARGS, "Whether the thread that asks is inside."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot call_count_slots[] = {
    {Py_tp_doc, "In place of a CallLock, where any number of threads call at once."},
    {Py_tp_dealloc, call_count_dealloc},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, call_count_methods},
    {0, NULL}};
static PyType_Spec call_count_spec = {
    .name = "lwmq_spark._native_messages.CallCount",
    .basicsize = sizeof(CallCount),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = call_count_slots,
};

/* ---- Condition ------------------------------------------------------------------------------------- */

typedef struct {
  CallLock lock;
  Py_ssize_t depth; /* how often its owner has entered */
  Waiter* sleepers; /* in `wait` */
} Condition;

/* How often the caller has entered; -1 with an error where it is not inside. */
static Py_ssize_t condition_check(const Condition* condition) {
  if (is_mine(&condition->lock)) return condition->depth;
  PyErr_SetString(PyExc_RuntimeError, "not inside of this condition");
  return -1;
}

static PyObject* condition_with(PyObject* self, PyObject* unused) {
  (void)unused;
  Condition* condition = (Condition*)self;
  if (is_mine(&condition->lock)) {
    ++condition->depth;
    Py_RETURN_TRUE;
  }
  if (call_lock_enter(&condition->lock, -1) < 0) return NULL;
  condition->depth = 1;
  Py_RETURN_TRUE;
}

static PyObject* condition_end_with(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  Condition* condition = (Condition*)self;
  if (condition_check(condition) < 0) return NULL;
  if (--condition->depth == 0) call_lock_leave(&condition->lock.ob_base);
  Py_RETURN_NONE;
}

static PyObject* condition_wait(PyObject* self, PyObject* arguments) {
  Condition* condition = (Condition*)self;
  PyObject* timeout = Py_None;
  if (!PyArg_ParseTuple(arguments, "|O:wait", &timeout)) return NULL;
  const PY_TIMEOUT_T us = us_of(timeout);
  const Py_ssize_t depth = PyErr_Occurred() ? -1 : condition_check(condition);
  if (PyErr_Occurred()) return NULL;
  Waiter waiter;
  if (waiter_init(&waiter) < 0) return NULL;
  waiter.next = condition->sleepers;
  condition->sleepers = &waiter;
  call_lock_leave(&condition->lock.ob_base);
  const PY_TIMEOUT_T end = now_us() + us;
  PY_TIMEOUT_T left = us;
  int status = 0;
  while (status == 0 && wait_for_ring(&waiter, left, 1)) {
    status = PyErr_CheckSignals();
    if (us >= 0) left = left_until(end);
  }
  const int notified = !take_out(&condition->sleepers, &waiter);
  hush(&waiter);
  call_lock_wait(&condition->lock, &waiter, 0, -1); /* `with` leaves what was entered, whatever came */
  waiter_free(&waiter);
  condition->depth = depth;
  return status == 0 ? PyBool_FromLong(notified) : NULL;
}

static PyObject* condition_notify_all(PyObject* self, PyObject* unused) {
  (void)unused;
  Condition* condition = (Condition*)self;
  if (condition_check(condition) < 0) return NULL;
  while (condition->sleepers != NULL) {
    Waiter* waiter = condition->sleepers;
    condition->sleepers = waiter->next;
    ring(waiter);
  }
  Py_RETURN_NONE;
}

static PyMethodDef condition_methods[] = {
    {"__enter__", condition_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))condition_end_with, METH_FASTCALL, NULL},
    {"acquire", condition_with, METH_NOARGS, NULL},
    {"release", (PyCFunction)(void (*)(void))condition_end_with, METH_FASTCALL, NULL},
    {"wait", condition_wait, METH_VARARGS, "wait(timeout=None), seconds: False where nobody has notified."},
    {"notify_all", condition_notify_all, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot condition_slots[] = {{Py_tp_doc, "As threading.Condition, as far as a Future needs it."},
                                        {Py_tp_new, PyType_GenericNew},
                                        {Py_tp_methods, condition_methods},
                                        {0, NULL}};
static PyType_Spec condition_spec = {
    .name = "lwmq_spark._native_messages.Condition",
    .basicsize = sizeof(Condition),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = condition_slots,
};

int add_call_locks(PyObject* module) {
  CallLockType = add_type(module, &call_lock_spec);
  AttemptType = add_type(module, &attempt_spec);
  return CallLockType != NULL && AttemptType != NULL && add_type(module, &call_locks_spec) != NULL &&
                 add_type(module, &call_count_spec) != NULL && add_type(module, &condition_spec) != NULL
             ? 0
             : -1;
}
