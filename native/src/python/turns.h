/* Locks for `with` that no exception of a signal's handler leaves locked. Python runs such a handler between
 * two steps of Python code, and a lock written in Python has further steps after the one that locks. Here
 * entering is a single step, after which `with` always leaves. The GIL guards these objects. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The last call of a tp_dealloc. */
void free_object(PyObject* self);
/* Makes a type, which lives as long as the process, and adds it to the module. NULL: an error is set. */
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec);

/* Adds the types Turn and Condition. -1: an error is set. */
int add_turns(PyObject* module);

/* 1: the object is a Turn. */
int is_turn(PyObject* object);
/* 1: no thread was inside, and the caller is now. Never waits, and passes the threads that wait. */
int turn_try_enter(PyObject* turn);
void turn_leave(PyObject* turn);
/* 1: a thread is inside. */
int turn_is_taken(PyObject* turn);
