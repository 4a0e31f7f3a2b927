#include "turns.h"

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

/* A waiting thread. Lies on its stack. */
typedef struct Waiter {
  struct Waiter* next;
  PyThread_type_lock bell; /* locked until another thread rings */
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
  if (!waiter->rung) PyThread_release_lock(waiter->bell); /* a lock is freed unlocked */
  PyThread_free_lock(waiter->bell);
}

static void ring(Waiter* waiter) {
  if (waiter == NULL || waiter->rung) return;
  waiter->rung = 1;
  PyThread_release_lock(waiter->bell);
}

/* Takes `waiter` out of the list that begins at `place`. 0: it is not there. */
static int take_out(Waiter** place, const Waiter* waiter) {
  while (*place != NULL && *place != waiter) place = &(*place)->next;
  if (*place == NULL) return 0;
  *place = waiter->next;
  return 1;
}

/* Locks the bell again if it was rung. */
static void hush(Waiter* waiter) {
  if (waiter->rung) PyThread_acquire_lock(waiter->bell, WAIT_LOCK);
  waiter->rung = 0;
}

/* Waits, without the GIL, until the bell is rung or `timeout_us` are over; negative is for ever. 1: a signal
 * has ended the wait. Signals do not end a wait that is not `interruptible`. */
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

/* The time from now until `end_us`, which is a time of now_us. */
static PY_TIMEOUT_T left_until(PY_TIMEOUT_T end_us) {
  const PY_TIMEOUT_T now = now_us();
  return end_us > now ? end_us - now : 0;
}

/* In microseconds. -1: for ever, for None and very long times; or an error is set. */
static PY_TIMEOUT_T us_of(PyObject* seconds) {
  const double longest = 1e9;
  if (seconds == Py_None) return -1;
  const double given = PyFloat_AsDouble(seconds);
  if (PyErr_Occurred() || given >= longest) return -1;
  return (PY_TIMEOUT_T)(given > 0 ? given * 1e6 : 0);
}

/* ---- Turn ------------------------------------------------------------------------------------------ */

typedef struct {
  PyObject_HEAD int taken;
  unsigned long owner; /* the thread, while it is taken */
  Waiter* first;       /* in the order in which they came */
} Turn;

static PyTypeObject* TurnType;

static void turn_take(Turn* turn) {
  turn->taken = 1;
  turn->owner = PyThread_get_thread_ident();
}

static const char kHeldHere[] =
    "a signal's handler, or a finalizer, wants what the code that it has interrupted holds: raise an "
    "exception there, and do this behind it";

static int is_mine(const Turn* turn) { return turn->taken && turn->owner == PyThread_get_thread_ident(); }

/* 0: entered. 1: not entered until `end_us`; negative is for ever. -1: a signal's handler has raised. No
 * handler runs while this thread is in the queue, because it may want to enter itself. */
static int turn_wait(Turn* turn, Waiter* waiter, int interruptible, PY_TIMEOUT_T end_us) {
  while (turn->taken || turn->first != NULL) {
    Waiter** last = &turn->first;
    while (*last != NULL) last = &(*last)->next;
    waiter->next = NULL;
    *last = waiter;
    int signalled = 0;
    PY_TIMEOUT_T left = -1;
    while (!signalled && left != 0 && (turn->taken || turn->first != waiter)) {
      if (end_us >= 0) left = left_until(end_us);
      signalled = wait_for_ring(waiter, left, interruptible);
    }
    const int is_next = !turn->taken && turn->first == waiter;
    take_out(&turn->first, waiter);
    hush(waiter);
    if (is_next && !signalled) break;
    if (!turn->taken) ring(turn->first); /* the ring may have been meant for this thread */
    if (signalled && PyErr_CheckSignals() < 0) return -1;
    if (left == 0) return 1;
  }
  turn_take(turn);
  return 0;
}

/* Returns what turn_wait does. */
static int turn_enter(Turn* turn, PY_TIMEOUT_T end_us) {
  if (!turn->taken && turn->first == NULL) {
    turn_take(turn);
    return 0;
  }
  if (is_mine(turn)) {
    PyErr_SetString(PyExc_RuntimeError, kHeldHere);
    return -1;
  }
  Waiter waiter;
  if (waiter_init(&waiter) < 0) return -1;
  const int status = turn_wait(turn, &waiter, 1, end_us);
  waiter_free(&waiter);
  return status;
}

int is_turn(PyObject* object) { return Py_IS_TYPE(object, TurnType); }

int turn_try_enter(PyObject* object) {
  Turn* turn = (Turn*)object;
  if (turn->taken) return 0;
  turn_take(turn);
  return 1;
}

void turn_leave(PyObject* object) {
  Turn* turn = (Turn*)object;
  turn->taken = 0;
  ring(turn->first);
}

int turn_is_taken(PyObject* turn) { return ((Turn*)turn)->taken; }

static PyObject* turn_with(PyObject* self, PyObject* unused) {
  (void)unused;
  if (turn_enter((Turn*)self, -1) < 0) return NULL;
  Py_RETURN_NONE;
}

static PyObject* turn_end_with(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  turn_leave(self);
  Py_RETURN_NONE;
}

static PyObject* turn_held_here(PyObject* self, PyObject* unused) {
  (void)unused;
  return PyBool_FromLong(is_mine((Turn*)self));
}

static PyObject* turn_within(PyObject* self, PyObject* seconds);

static PyMethodDef turn_methods[] = {
    {"__enter__", turn_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))turn_end_with, METH_FASTCALL, NULL},
    {"within", turn_within, METH_O, "within(seconds): for `with`, which says whether we are inside."},
    {"held_here", turn_held_here, METH_NOARGS, "Whether the thread that asks is inside."},
    {NULL, NULL, 0, NULL}};

static PyType_Slot turn_slots[] = {
    {Py_tp_doc,
     "A lock that threads pass in the order they came: one that waits in slices lets the others in."},
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, turn_methods},
    {0, NULL}};
static PyType_Spec turn_spec = {
    .name = "lwmq_spark._native_messages.Turn",
    .basicsize = sizeof(Turn),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .slots = turn_slots,
};

/* ---- Attempt --------------------------------------------------------------------------------------- */

typedef struct {
  PyObject_HEAD PyObject* turn;
  PY_TIMEOUT_T timeout_us; /* negative for never */
  int entered;
} Attempt;

static void attempt_free(PyObject* self) {
  Py_DECREF(((Attempt*)self)->turn);
  free_object(self);
}

static PyObject* attempt_with(PyObject* object, PyObject* unused) {
  (void)unused;
  Attempt* self = (Attempt*)object;
  const PY_TIMEOUT_T end_us = self->timeout_us < 0 ? -1 : now_us() + self->timeout_us;
  const int status = turn_enter((Turn*)self->turn, end_us);
  if (status < 0) return NULL;
  self->entered = status == 0;
  return PyBool_FromLong(self->entered);
}

static PyObject* attempt_end_with(PyObject* object, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  Attempt* self = (Attempt*)object;
  if (self->entered) turn_leave(self->turn);
  self->entered = 0;
  Py_RETURN_NONE;
}

static PyMethodDef attempt_methods[] = {
    {"__enter__", attempt_with, METH_NOARGS, NULL},
    {"__exit__", (PyCFunction)(void (*)(void))attempt_end_with, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL}};

static PyType_Slot attempt_slots[] = {{Py_tp_doc, "What Turn.within makes, for one `with`."},
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

static PyObject* turn_within(PyObject* self, PyObject* seconds) {
  const PY_TIMEOUT_T timeout_us = us_of(seconds);
  if (PyErr_Occurred()) return NULL;
  Attempt* made = PyObject_New(Attempt, AttemptType);
  if (made == NULL) return NULL;
  made->turn = Py_NewRef(self);
  made->timeout_us = timeout_us;
  made->entered = 0;
  return (PyObject*)made;
}

/* ---- Condition ------------------------------------------------------------------------------------- */

typedef struct {
  Turn turn;
  Py_ssize_t depth; /* how often its owner has entered */
  Waiter* sleepers; /* in `wait` */
} Condition;

/* How often the caller has entered. -1, with an error: it is not inside. */
static Py_ssize_t condition_check(const Condition* condition) {
  if (is_mine(&condition->turn)) return condition->depth;
  PyErr_SetString(PyExc_RuntimeError, "not inside of this condition");
  return -1;
}

static PyObject* condition_with(PyObject* self, PyObject* unused) {
  (void)unused;
  Condition* condition = (Condition*)self;
  if (is_mine(&condition->turn)) {
    ++condition->depth;
    Py_RETURN_TRUE;
  }
  if (turn_enter(&condition->turn, -1) < 0) return NULL;
  condition->depth = 1;
  Py_RETURN_TRUE;
}

static PyObject* condition_end_with(PyObject* self, PyObject* const* arguments, Py_ssize_t count) {
  (void)arguments;
  (void)count;
  Condition* condition = (Condition*)self;
  if (condition_check(condition) < 0) return NULL;
  if (--condition->depth == 0) turn_leave(&condition->turn.ob_base);
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
  turn_leave(&condition->turn.ob_base);
  const PY_TIMEOUT_T end = now_us() + us;
  PY_TIMEOUT_T left = us;
  int status = 0;
  while (status == 0 && wait_for_ring(&waiter, left, 1)) {
    status = PyErr_CheckSignals();
    if (us >= 0) left = left_until(end);
  }
  const int notified = !take_out(&condition->sleepers, &waiter);
  hush(&waiter);
  turn_wait(&condition->turn, &waiter, 0, -1); /* entered in any case, because `with` leaves it */
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

int add_turns(PyObject* module) {
  TurnType = add_type(module, &turn_spec);
  AttemptType = add_type(module, &attempt_spec);
  return TurnType != NULL && AttemptType != NULL && add_type(module, &condition_spec) != NULL ? 0 : -1;
}
