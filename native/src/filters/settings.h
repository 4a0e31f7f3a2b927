// What stands behind a filter's name: `0.01,seed=7`, a value without a key first, then keys and values.
// `%2B` stands for `+`, and so on: what an address would take for its own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace lwmq::filters {

class Settings {
 public:
  // `filter` names it in errors; a value without a key is that of `first`.
  Settings(const char* filter, const char* text, const char* first);

  // Each takes the setting out, leaves `*out` where there is none, and notes the first failure.
  void take(const char* key, std::string* out);
  void take(const char* key, std::uint64_t* out);       // a count, or bytes with KiB, MiB, GiB
  void take_time(const char* key, std::uint64_t* out);  // nanoseconds; us, ms, s; ms where no unit stands
  void take_share(const char* key, double* out);        // 0 to 1
  // Notes, where nothing else has failed, that `key` is missing: `wanted`.
  void miss(const char* key, const char* wanted);
  // LWMQ_E_INVALID with a text: of the first failure, or a setting that nobody took.
  Status done();

 private:
  struct Pair {
    std::string key, value;
  };
  bool find(const char* key, std::string* out_value);
  void refuse(const char* key, const std::string& value, const char* wanted);

  const char* filter_;
  std::vector<Pair> pairs_;
  std::string failure_;
};

}  // namespace lwmq::filters
