// In place of libFuzzer, where a target is built as a plain test: runs every input of the files and folders
// that it is given, once.
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "input.h"

namespace {

void run(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  const std::vector<char> bytes{std::istreambuf_iterator<char>(in), {}};
  // A block of exactly that size on the heap: a sanitizer sees the first byte beyond it.
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

}  // namespace

int main(int count, char** arguments) {
  std::size_t inputs = 0;
  for (int i = 1; i < count; ++i) {
    if (!std::filesystem::is_directory(arguments[i])) {
      run(arguments[i]);
      ++inputs;
      continue;
    }
    for (const auto& entry : std::filesystem::directory_iterator(arguments[i])) {
      run(entry.path());
      ++inputs;
    }
  }
  std::printf("%zu inputs passed\n", inputs);
  return inputs == 0 ? 1 : 0;
}
