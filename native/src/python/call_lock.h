/* Who is inside: locks for `with` that no exception of a signal's handler leaves closed. Python runs such a
 * handler between two steps of Python code, and a lock written in Python has such steps behind the one that
 * took it. Here entering is one step, after which `with` is sure to leave. The GIL guards all of it. */
#pragma once
#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* The last call of a tp_dealloc. */
void free_object(PyObject* self);
/* A new type, which the module has under its name and which lives as long as the process. NULL with an error.
 */
PyTypeObject* add_type(PyObject* module, PyType_Spec* spec);

/* Adds the types CallLock, CallLocks, CallCount and Condition; -1 with an error. */
int add_call_locks(PyObject* module);

/* Of an object that add_call_locks's types allow: 1 where it is a CallLock. */
int is_call_lock(PyObject* object);
/* 1, and the caller inside, where nobody is. Never waits; whoever waits is passed. */
int call_lock_try_enter(PyObject* lock);
void call_lock_leave(PyObject* lock);
/* 1 while somebody is inside: to be looked at. */
int call_lock_is_taken(PyObject* lock);
