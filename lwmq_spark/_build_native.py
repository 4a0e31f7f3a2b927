"""Build time only: writes the C source of `lwmq_spark._native` from lwmq.h.

    python _build_native.py path/to/lwmq.h path/to/_native.c

The declarations that cffi reads are the lines of lwmq.h between its two marks, so the header stays the one
place where the interface is written down. cffi knows no macros, so the tables of counters are written out as
fields here. CMake compiles the result and links it against liblwmq.so.

Beside lwmq.h the module has one small thing of its own: the way back for external frames. The library calls
`lwmq_frame_callback` on whatever thread lets go of a frame last, possibly without the GIL and while the
interpreter shuts down, so the call-back must not be Python. `lwmq_python_frame_event` only notes the context
in a list and makes a descriptor readable; a thread that Python owns reads it and calls
`lwmq_python_take_released` until that answers NULL.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

import cffi

BEGIN = "/* cdef: begin */"
END = "/* cdef: end */"

# The declarations of the C part below.
EXTRA_CDEF = """
/* Makes the descriptor (an eventfd) at the first call; -1 and errno on failure. */
int lwmq_python_release_fd(void);
/* For lwmq_message_append_external: notes `context` when the frame is released. Any thread, no GIL. */
void lwmq_python_frame_event(void *context, int32_t event);
/* In a forked child, before anything else here: gives it a descriptor of its own. */
void lwmq_python_forked(void);
/* The next noted context, newest first; NULL when there is none. */
void *lwmq_python_take_released(void);
/* Releases a struct ArrowArray of the Arrow C data interface. */
void lwmq_python_release_array(void *array);
"""

EXTRA_SOURCE = r"""
#include <lwmq/lwmq.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* released: any thread pushes (compare-exchange, release); the one Python thread takes the whole list
   (exchange, acquire) and hands it out one by one from `taken`, which is its own. */
struct lwmq_python_node {
  struct lwmq_python_node *next;
  void *context;
};
static _Atomic(struct lwmq_python_node *) lwmq_python_released_list;
static struct lwmq_python_node *lwmq_python_taken;
static _Atomic int lwmq_python_fd = -1;

static int lwmq_python_release_fd(void) {
  int fd = atomic_load(&lwmq_python_fd);
  if (fd >= 0) return fd;
  fd = eventfd(1, EFD_CLOEXEC); /* readable at first: something may have been noted before */
  if (fd < 0) return -1;
  int expected = -1;
  if (!atomic_compare_exchange_strong(&lwmq_python_fd, &expected, fd)) {
    close(fd);
    return expected;
  }
  return fd;
}

/* What the parent had noted and not taken is to be released here, too: the new descriptor tells of it. */
static void lwmq_python_forked(void) {
  const int fd = atomic_exchange(&lwmq_python_fd, -1);
  if (fd >= 0) close(fd);
}

static void lwmq_python_frame_event(void *context, int32_t event) {
  if (event != LWMQ_FRAME_RELEASE) return;
  struct lwmq_python_node *node = malloc(sizeof(*node));
  /* Without memory for a note the object stays alive for good: a leak, never a use after free. */
  if (node == NULL) return;
  node->context = context;
  node->next = atomic_load_explicit(&lwmq_python_released_list, memory_order_relaxed);
  while (!atomic_compare_exchange_weak_explicit(&lwmq_python_released_list, &node->next, node,
                                                memory_order_release, memory_order_relaxed)) {
  }
  const int fd = atomic_load(&lwmq_python_fd);
  const uint64_t one = 1;
  if (fd >= 0 && write(fd, &one, sizeof(one)) < 0) {
    /* The counter is at its maximum: the descriptor is readable already. */
  }
}

static void *lwmq_python_take_released(void) {
  if (lwmq_python_taken == NULL)
    lwmq_python_taken =
        atomic_exchange_explicit(&lwmq_python_released_list, NULL, memory_order_acquire);
  struct lwmq_python_node *node = lwmq_python_taken;
  if (node == NULL) return NULL;
  lwmq_python_taken = node->next;
  void *context = node->context;
  free(node);
  return context;
}

/* https://arrow.apache.org/docs/format/CDataInterface.html */
struct lwmq_python_array {
  int64_t length, null_count, offset, n_buffers, n_children;
  const void **buffers;
  struct lwmq_python_array **children, *dictionary;
  void (*release)(struct lwmq_python_array *);
  void *private_data;
};

static void lwmq_python_release_array(void *array) {
  struct lwmq_python_array *shown = array;
  if (shown->release != NULL) shown->release(shown);
}
"""


def declarations(header: str) -> str:
    """The part of lwmq.h that cffi reads."""
    start, end = header.find(BEGIN), header.find(END)
    if start < 0 or end < start:
        raise SystemExit(f"lwmq.h lacks the lines {BEGIN!r} and {END!r}, in this order")
    return _without_macros(header[start + len(BEGIN) : end])


def _without_macros(text: str) -> str:
    """Writes each `LWMQ_..._COUNTERS(LWMQ_COUNTER_FIELD)` out as fields, and drops the tables themselves."""
    macro = re.compile(r"^#define (LWMQ_COUNTER_FIELD|LWMQ_\w+_COUNTERS)((?:.*\\\n)*.*)", re.MULTILINE)
    tables = dict(macro.findall(text))

    def fields(use: re.Match[str]) -> str:
        names = re.findall(r"COUNTER\((\w+),", tables[use[1]])
        return " ".join(f"uint64_t {name};" for name in names)

    return re.sub(r"\b(\w+)\(LWMQ_COUNTER_FIELD\)", fields, macro.sub("", text))


def main(header: Path, output: Path) -> None:
    builder = cffi.FFI()
    builder.cdef(declarations(header.read_text(encoding="utf-8")))
    builder.cdef(EXTRA_CDEF)
    builder.set_source("lwmq_spark._native", EXTRA_SOURCE)
    builder.emit_c_code(str(output))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
