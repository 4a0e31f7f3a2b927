// The settings of a provider's own (lwmq_tli_setting) that an address brings, with the memory of their texts.
#pragma once

#include <list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lwmq/lwmq_tli.h"

namespace lwmq::tli {

class OwnSettings {
 public:
  void add(std::string_view name, std::string_view value) {
    const auto& kept = texts_.emplace_back(std::string(name), std::string(value));
    all_.push_back({kept.first.c_str(), kept.second.c_str()});
  }
  // Lends the settings to `options`, for as long as this object lives.
  void lend_to(lwmq_tli_options* options) const noexcept {
    options->settings = all_.data();
    options->settings_count = static_cast<std::uint32_t>(all_.size());
  }

 private:
  std::list<std::pair<std::string, std::string>> texts_;  // which stay where they are
  std::vector<lwmq_tli_setting> all_;
};

}  // namespace lwmq::tli
