// Golden bytes of tests/wire/*.hex: a case begins with `= name kind`; hexadecimal bytes, then a comment.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <map>
#include <sstream>
#include <string>

namespace lwmq::testing_support {

struct GoldenCase {
  std::uint32_t kind = 0;
  std::string bytes;
};

inline std::map<std::string, GoldenCase> read_golden(const std::string& path) {
  std::map<std::string, GoldenCase> cases;
  std::ifstream file(path);
  EXPECT_TRUE(file.is_open()) << path;
  GoldenCase* current = nullptr;
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line.substr(0, line.find('#')));
    std::string word;
    while (words >> word) {
      if (word == "=") {
        words >> word;
        current = &cases[word];
        words >> current->kind;
      } else {
        current->bytes += static_cast<char>(std::stoi(word, nullptr, 16));
      }
    }
  }
  return cases;
}

}  // namespace lwmq::testing_support
