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

/* Adds the types Turn, Turns, Crowd and Condition; -1 with an error. */
int add_turns(PyObject* module);

/* Of an object that add_turns's types allow: 1 where it is a Turn. */
int is_turn(PyObject* object);
/* 1, and the caller inside, where nobody is. Never waits; whoever waits is passed. */
int turn_try_enter(PyObject* turn);
void turn_leave(PyObject* turn);
/* 1 while somebody is inside: to be looked at. */
int turn_is_taken(PyObject* turn);
