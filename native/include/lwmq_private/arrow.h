/* lwmq_private/arrow.h - shortcuts of our own bindings for Arrow arrays. Not part of the interface: no wheel has this
 * header, and it may change with every version of the library.
 *
 * pyarrow decides how a batch lies in a block, and whether a block holds one: it writes and checks the metadata.
 * Batches of one schema whose columns have a fixed width differ in few numbers. A binding shows this header one batch
 * that pyarrow has written or checked, and those that follow need no further look by pyarrow.
 *
 * `struct ArrowArray` is the one of the Arrow C data interface. What lwmq.h says at its top holds here, too.
 */
#ifndef LWMQ_PRIVATE_ARROW_H
#define LWMQ_PRIVATE_ARROW_H

#include <lwmq/lwmq.h>

#ifdef __cplusplus
extern "C" {
#endif

#pragma GCC visibility push(default)

/* cdef: begin */

/* How to write batches of one schema whose columns all have a fixed width. The plan has the head that all such batches
   with at least one row share, and says where in it the numbers lie that differ from batch to batch. Everything is
   lent. */
typedef struct lwmq_array_plan {
  uint64_t size;
  const void *head;       /* prefix and metadata of a record batch message, padded to a multiple of 64 */
  uint64_t head_bytes;
  uint64_t rows_at;       /* int64: rows */
  uint64_t body_bytes_at; /* int64: bytes of the body */
  uint64_t nodes_at;      /* two int64 per column: rows, nulls */
  uint64_t buffers_at;    /* four int64 per column: offset and bytes of the bitmap, then of the values */
  const uint32_t *bits;   /* per column: the width of a value */
  uint32_t column_count;
  uint32_t reserved;
  uint64_t bytes_max;     /* the largest block that this call allocates */
  const char *const *not_null; /* per column: its name if it is declared not null, else NULL. NULL: no column is */
} lwmq_array_plan;

/* Allocates a block, copies a record batch into it, and publishes it, all in one call. Waits as lwmq_writer_allocate
   does. `array` is a `struct ArrowArray` of the Arrow C data interface; it is lent and not released.
   LWMQ_E_UNSUPPORTED: the plan does not cover this batch, because it has no rows, columns of another kind, or bits that
   begin within a byte; or the batch is larger than bytes_max. Nothing was done.
   LWMQ_E_SCHEMA: a column that is declared not null has nulls; the text says which column and how many. Nothing was
   done. */
lwmq_status lwmq_writer_write_array(lwmq_writer *writer, const lwmq_array_plan *plan, const void *array,
                                    uint32_t partition, uint32_t timeout_ms);

/* How batches that begin with the same bytes are cut into arrays. A layout is learned from one batch and used for all
   that follow. It covers only columns of fixed width, for which the head alone says where the values lie. */
typedef struct lwmq_array_layout lwmq_array_layout;

/* Learns a layout from `array`, a `struct ArrowArray` that is lent. The array shows `batch`, was checked against it, and
   keeps it leased. `head`, which is lent, is the prefix and metadata from which the array was made. It must be a
   copy, because the writer can still change the batch.
   LWMQ_E_UNSUPPORTED: a buffer of the array lies outside the batch. */
lwmq_status lwmq_array_layout_create(const void *array, const lwmq_batch_info *batch, const void *head,
                                     uint64_t head_bytes, lwmq_array_layout **out_layout);
/* Takes the layout. NULL is allowed. */
void lwmq_array_layout_destroy(lwmq_array_layout *layout);
/* Makes `out_array`, a `struct ArrowArray`, show the batch where it lies. Never waits.
   LWMQ_OK: takes the batch. Releasing the array, on any thread, releases the batch.
   LWMQ_E_EMPTY: the batch has another head, size or number of rows. It is still the caller's. */
lwmq_status lwmq_batch_export(lwmq_batch *batch, const lwmq_array_layout *layout, void *out_array);

/* Says to which of `partitions` partitions each row goes: pmod(hash(keys), partitions) of Spark SQL. `array`, a
   `struct ArrowArray`, holds the key columns as a struct, and `schema`, a `struct ArrowSchema`, says their types. Both
   are taken, also on failure. `out_ids` has room for an id for each row. Any thread; never waits.
   LWMQ_E_UNSUPPORTED: a column cannot be a key; the text names it and its type. LWMQ_E_INVALID: no column, or a wrong
   number of partitions. */
lwmq_status lwmq_partition_ids(void *schema, void *array, uint32_t partitions, uint32_t *out_ids);

/* cdef: end */

#pragma GCC visibility pop

#ifdef __cplusplus
}
#endif
#endif
