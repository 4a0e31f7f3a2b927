#include "stream/client/arrow_array.h"

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "base/cache_line.h"
#include "base/checked.h"
#include "os/identity.h"
#include "stream/client/reader.h"
#include "stream/client/writer.h"

namespace lwmq::stream {

// ---- Reading ----------------------------------------------------------------------------------------

namespace {

constexpr std::uint32_t kDepthMax = 64;  // as deep as Arrow's own readers go

Status add_node(const ArrowArray& array, const lwmq_batch_info& block, std::uint32_t depth,
                lwmq_array_layout* layout) {
  if (depth > kDepthMax || array.dictionary != nullptr)
    return fail(LWMQ_E_UNSUPPORTED, "a batch with %s has no layout to keep",
                array.dictionary != nullptr ? "a dictionary" : "columns that deep");
  layout->nodes.push_back({array.length, array.null_count, array.offset,
                           static_cast<std::uint32_t>(array.n_buffers),
                           static_cast<std::uint32_t>(array.n_children)});
  for (std::int64_t i = 0; i < array.n_buffers; ++i) {
    const auto* data = static_cast<const std::uint8_t*>(array.buffers[i]);
    if (data != nullptr && (data < block.data || data > block.data + block.bytes))
      return fail(LWMQ_E_UNSUPPORTED, "buffer %" PRId64 " of a column lies outside of its batch", i);
    layout->buffers.push_back(data == nullptr ? -1 : data - block.data);
  }
  for (std::int64_t i = 0; i < array.n_children; ++i) {
    const Status status = add_node(*array.children[i], block, depth + 1, layout);
    if (status != LWMQ_OK) return status;
  }
  return LWMQ_OK;
}

// One allocation for all arrays of a batch, but the outermost, which is the caller's.
struct Exported {
  lwmq_batch* batch;
  std::atomic<std::uint32_t> held;  // arrays not yet released: a consumer may move children away
  ArrowArray* arrays;
  ArrowArray** children;
  const void** buffers;
};

void release_array(ArrowArray* array) {
  auto* exported = static_cast<Exported*>(array->private_data);
  for (std::int64_t i = 0; i < array->n_children; ++i) {
    if (array->children[i]->release != nullptr) array->children[i]->release(array->children[i]);
  }
  array->release = nullptr;
  if (exported->held.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
  if (!os::forked()) release(exported->batch);
  std::free(exported);
}

Exported* make_exported(const lwmq_array_layout& layout) noexcept {
  const std::size_t inner = layout.nodes.size() - 1;
  const std::size_t bytes = sizeof(Exported) + inner * (sizeof(ArrowArray) + sizeof(ArrowArray*)) +
                            layout.buffers.size() * sizeof(void*);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) return nullptr;
  auto* exported = new (memory) Exported{};
  exported->arrays = reinterpret_cast<ArrowArray*>(exported + 1);
  exported->children = reinterpret_cast<ArrowArray**>(exported->arrays + inner);
  exported->buffers = static_cast<const void**>(static_cast<void*>(exported->children + inner));
  return exported;
}

}  // namespace

Status learn_layout(const ArrowArray& example, const lwmq_batch_info& block, std::string_view head,
                    lwmq_array_layout* out_layout) {
  if (head.size() > block.bytes)
    return fail(LWMQ_E_INVALID, "a head of %zu bytes of a batch of %" PRIu64, head.size(), block.bytes);
  out_layout->head = head;
  out_layout->bytes = block.bytes;
  out_layout->rows = block.rows;
  return add_node(example, block, 0, out_layout);
}

Status export_batch(lwmq_batch* batch, const lwmq_array_layout& layout, ArrowArray* out_array) {
  const lwmq_batch_info& info = batch->info;
  // The head is compared where it lies: whatever it says a moment later, we follow our own numbers.
  if (info.bytes != layout.bytes || info.rows != layout.rows || info.flags != LWMQ_BATCH_IPC_MESSAGE ||
      std::memcmp(info.data, layout.head.data(), layout.head.size()) != 0)
    return LWMQ_E_EMPTY;
  Exported* exported = make_exported(layout);
  if (exported == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for the arrays of a batch");
  exported->batch = batch;
  exported->held.store(static_cast<std::uint32_t>(layout.nodes.size()), std::memory_order_relaxed);
  for (std::size_t i = 0; i < layout.buffers.size(); ++i) {
    exported->buffers[i] = layout.buffers[i] < 0 ? nullptr : info.data + layout.buffers[i];
  }
  // Nodes come each before its children, and children of one after the other: each takes its own next places.
  std::size_t node = 0, child = 0, buffer = 0;
  const auto fill = [&](auto& self, ArrowArray* array) -> void {
    const lwmq_array_layout::Node& from = layout.nodes[node++];
    ArrowArray** children = exported->children + child;
    ArrowArray* arrays = exported->arrays + child;
    child += from.children;
    *array = {
        from.length, from.null_count, from.offset,   from.buffers, from.children, exported->buffers + buffer,
        children,    nullptr,         release_array, exported};
    buffer += from.buffers;
    for (std::uint32_t i = 0; i < from.children; ++i) {
      children[i] = &arrays[i];
      self(self, &arrays[i]);
    }
  };
  fill(fill, out_array);
  return LWMQ_OK;
}

// ---- Writing ----------------------------------------------------------------------------------------

namespace {

constexpr std::uint64_t kNumberBytes = sizeof(std::int64_t);

Status differs(const char* what) noexcept {
  return fail(LWMQ_E_UNSUPPORTED, "the array is not as the plan says: %s", what);
}

std::uint64_t count_nulls(const std::uint8_t* bitmap, std::uint64_t rows) noexcept {
  std::uint64_t valid = 0, row = 0;
  for (; row + 64 <= rows; row += 64) {
    std::uint64_t word = 0;
    std::memcpy(&word, bitmap + row / 8, sizeof word);
    valid += static_cast<std::uint64_t>(__builtin_popcountll(word));
  }
  for (; row < rows; ++row) valid += bitmap[row / 8] >> row % 8 & 1U;
  return rows - valid;
}

// What becomes of one column: its nulls, and two runs of bytes.
struct Column {
  std::uint64_t nulls;
  const std::uint8_t* from[2];  // bitmap, values
  std::uint64_t bytes[2];
};

Status take_column(const ArrowArray& array, std::uint64_t rows, std::uint32_t bits, Column* out) noexcept {
  if (array.n_children != 0 || array.dictionary != nullptr || array.n_buffers != 2 ||
      static_cast<std::uint64_t>(array.length) != rows || array.buffers[1] == nullptr || array.offset < 0)
    return differs("a column of another kind");
  const auto offset = static_cast<std::uint64_t>(array.offset);
  if (bits % 8 != 0 && offset % 8 != 0) return differs("bits that begin within a byte");
  out->from[1] = static_cast<const std::uint8_t*>(array.buffers[1]) + offset * bits / 8;
  out->bytes[1] = (rows * bits + 7) / 8;
  out->from[0] = nullptr;
  out->bytes[0] = out->nulls = 0;
  if (array.null_count == 0 || array.buffers[0] == nullptr) return LWMQ_OK;
  if (offset % 8 != 0) return differs("a bitmap that begins within a byte");
  out->from[0] = static_cast<const std::uint8_t*>(array.buffers[0]) + offset / 8;
  out->nulls =
      array.null_count > 0 ? static_cast<std::uint64_t>(array.null_count) : count_nulls(out->from[0], rows);
  out->bytes[0] = out->nulls == 0 ? 0 : (rows + 7) / 8;
  return LWMQ_OK;
}

Status refuse_nulls(const lwmq_writer& writer, const char* column, std::uint64_t nulls) noexcept {
  return fail(LWMQ_E_SCHEMA,
              "%" PRIu64
              " null%s in %s, which the stream %s declares not null: filter them out, or declare the field "
              "nullable",
              nulls, nulls == 1 ? "" : "s", column, writer.address.c_str());
}

void put(std::uint8_t* at, std::uint64_t number) noexcept { std::memcpy(at, &number, sizeof number); }

bool is_sound(const lwmq_array_plan& plan) noexcept {
  const std::uint64_t columns = plan.column_count;
  return plan.head != nullptr && plan.bits != nullptr && columns > 0 && plan.head_bytes % kCacheLine == 0 &&
         fits(plan.rows_at, kNumberBytes, plan.head_bytes) &&
         fits(plan.body_bytes_at, kNumberBytes, plan.head_bytes) &&
         fits(plan.nodes_at, columns * 2 * kNumberBytes, plan.head_bytes) &&
         fits(plan.buffers_at, columns * 4 * kNumberBytes, plan.head_bytes);
}

}  // namespace

Status write_array(lwmq_writer& writer, const lwmq_array_plan& plan, const ArrowArray& array,
                   std::uint32_t partition, std::uint32_t timeout_ms) {
  if (!is_sound(plan))
    return fail(LWMQ_E_INVALID,
                "a plan of %u columns with a head of %" PRIu64 " bytes: a number lies outside of it",
                plan.column_count, plan.head_bytes);
  const auto rows = static_cast<std::uint64_t>(array.length);
  if (array.length <= 0 || array.offset != 0 || array.n_children != plan.column_count)
    return differs("no rows, or other columns");
  constexpr std::uint32_t kFew = 64;
  Column few[kFew];
  std::unique_ptr<Column[]> many(plan.column_count > kFew ? new (std::nothrow) Column[plan.column_count]
                                                          : nullptr);
  Column* columns = plan.column_count > kFew ? many.get() : few;
  if (columns == nullptr) return fail(LWMQ_E_NO_MEMORY, "no memory for %u columns", plan.column_count);
  std::uint64_t end = plan.head_bytes;
  for (std::uint32_t i = 0; i < plan.column_count; ++i) {
    const Status status = take_column(*array.children[i], rows, plan.bits[i], &columns[i]);
    if (status != LWMQ_OK) return status;
    if (columns[i].nulls > 0 && plan.not_null != nullptr && plan.not_null[i] != nullptr)
      return refuse_nulls(writer, plan.not_null[i], columns[i].nulls);
    for (const std::uint64_t bytes : columns[i].bytes) end += align_up(bytes, kCacheLine);
  }
  if (end > plan.bytes_max) return differs("more bytes than a block is to have");
  lwmq_block block;
  const Status status = allocate(writer, end, timeout_ms, &block);
  if (status != LWMQ_OK) return status;
  std::memcpy(block.data, plan.head, plan.head_bytes);
  put(block.data + plan.rows_at, rows);
  put(block.data + plan.body_bytes_at, end - plan.head_bytes);
  std::uint8_t* node = block.data + plan.nodes_at;
  std::uint8_t* buffer = block.data + plan.buffers_at;
  std::uint64_t at = plan.head_bytes;
  for (std::uint32_t i = 0; i < plan.column_count; ++i) {
    put(node, rows);
    put(node + kNumberBytes, columns[i].nulls);
    node += 2 * kNumberBytes;
    for (int k = 0; k < 2; ++k) {
      const std::uint64_t bytes = columns[i].bytes[k];
      put(buffer, at - plan.head_bytes);
      put(buffer + kNumberBytes, bytes);
      buffer += 2 * kNumberBytes;
      if (bytes > 0) std::memcpy(block.data + at, columns[i].from[k], bytes);
      at += align_up(bytes, kCacheLine);
    }
  }
  return publish(writer, &block, partition, end, rows, LWMQ_BATCH_IPC_MESSAGE);
}

}  // namespace lwmq::stream
