#include "modules/modules.h"

#include <dirent.h>
#include <dlfcn.h>
#include <elf.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "modules/signature.h"
#include "os/identity.h"
#include "os/segment.h"
#include "os/unique_fd.h"
#include "tli/host.h"
#include "tli/tables.h"

namespace lwmq::modules {
namespace {

constexpr std::uint64_t kModuleBytesMax = 256u << 20;
constexpr std::size_t kModulesMax = 256;
constexpr const char* kEntryName = "lwmq_tli_module_entry";
constexpr std::string_view kKeyLine = "lwmq-module-key 1 ";

std::uint64_t now_s() noexcept { return static_cast<std::uint64_t>(std::time(nullptr)); }

std::string trust_path() {
  const char* named = secure_getenv("LWMQ_MODULE_TRUST");
  return named != nullptr ? named : "/etc/lwmq/trusted_keys";
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

void copy_text(std::string_view from, char* to, std::size_t room) noexcept {
  const std::size_t bytes = std::min(from.size(), room - 1);
  for (std::size_t i = 0; i < bytes; ++i) to[i] = from[i] < ' ' || from[i] == 0x7f ? '?' : from[i];
  to[bytes] = '\0';
}

// The bytes of a regular file of at most `limit`. `fd_status`, where given, is of what was read.
Status read_file(const std::string& path, std::uint64_t limit, std::string* out_bytes,
                 struct stat* out_stat = nullptr) {
  const os::UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!fd || fstat(fd.get(), &status) != 0) return fail_errno(LWMQ_E_SYSTEM, errno, "%s", path.c_str());
  if (!S_ISREG(status.st_mode) || static_cast<std::uint64_t>(status.st_size) > limit)
    return fail(LWMQ_E_CORRUPT, "%s is no file of at most %" PRIu64 " bytes", path.c_str(), limit);
  if (out_stat != nullptr) *out_stat = status;
  out_bytes->resize(static_cast<std::size_t>(status.st_size));
  std::size_t at = 0;
  while (at < out_bytes->size()) {
    const ssize_t got = read(fd.get(), out_bytes->data() + at, out_bytes->size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(LWMQ_E_CORRUPT, "%s became shorter while it was read", path.c_str());
    at += static_cast<std::size_t>(got);
  }
  return LWMQ_OK;
}

// Who may write to the trust file decides what runs here.
Status read_trust(const std::string& path, std::vector<TrustedKey>* out_keys) {
  std::string text;
  struct stat status {};
  Status result = read_file(path, kTrustBytesMax, &text, &status);
  if (result == LWMQ_E_SYSTEM)
    return fail(LWMQ_E_DENIED, "no key is trusted: the trust file %s cannot be read", path.c_str());
  if (result != LWMQ_OK) return result;
  const bool safe = (status.st_uid == 0 || status.st_uid == geteuid()) && (status.st_mode & 022) == 0;
  if (!safe)
    return fail(LWMQ_E_DENIED,
                "no key is trusted: others than root and this user may write to the trust file %s",
                path.c_str());
  result = parse_trust(text, out_keys);
  if (result != LWMQ_OK) add_context(path.c_str());
  return result;
}

// A module in memory that nobody can write to any more.
struct Image {
  os::UniqueFd fd;
  os::Mapping memory;
};

Status read_image(const std::string& path, Image* out_image) {
  const os::UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (!file || fstat(file.get(), &status) != 0) return fail_errno(LWMQ_E_SYSTEM, errno, "%s", path.c_str());
  const auto bytes = static_cast<std::uint64_t>(status.st_size);
  if (!S_ISREG(status.st_mode) || bytes == 0 || bytes > kModuleBytesMax)
    return fail(LWMQ_E_CORRUPT, "no file of 1 to %" PRIu64 " bytes", kModuleBytesMax);
  constexpr unsigned kExecutable = 0x10;  // MFD_EXEC: newer kernels may refuse to map code without it
  int made = memfd_create("lwmq-module", MFD_CLOEXEC | MFD_ALLOW_SEALING | kExecutable);
  if (made < 0) made = memfd_create("lwmq-module", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  out_image->fd = os::UniqueFd(made);
  if (!out_image->fd) return fail_errno(LWMQ_E_SYSTEM, errno, "memfd_create");
  std::vector<char> piece(1 << 16);
  std::uint64_t copied = 0;
  for (;;) {
    const ssize_t got = read(file.get(), piece.data(), piece.size());
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    copied += static_cast<std::uint64_t>(got);
    if (copied > kModuleBytesMax || write(made, piece.data(), static_cast<std::size_t>(got)) != got)
      return fail(LWMQ_E_NO_MEMORY, "no memory for %" PRIu64 " bytes", bytes);
  }
  if (copied != bytes) return fail(LWMQ_E_CORRUPT, "the file changed while it was read");
  if (fcntl(made, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
    return fail_errno(LWMQ_E_SYSTEM, errno, "F_ADD_SEALS");
  void* memory = mmap(nullptr, bytes, PROT_READ, MAP_PRIVATE, made, 0);
  if (memory == MAP_FAILED) return fail_errno(LWMQ_E_NO_MEMORY, errno, "mmap");
  out_image->memory = os::Mapping(memory, bytes);
  return LWMQ_OK;
}

// Whether all that its headers speak of is in the file: the loader maps it without a look, and who reads
// behind the end dies.
Status check_whole(const std::uint8_t* data, std::uint64_t bytes) noexcept {
  Elf64_Ehdr head{};
  if (bytes < sizeof head) return fail(LWMQ_E_CORRUPT, "%" PRIu64 " bytes are no shared object", bytes);
  std::memcpy(&head, data, sizeof head);
  if (std::memcmp(head.e_ident, ELFMAG, SELFMAG) != 0 || head.e_ident[EI_CLASS] != ELFCLASS64)
    return fail(LWMQ_E_CORRUPT, "it is no shared object of 64 bits");
  const auto reaches = [bytes](std::uint64_t begin, std::uint64_t length) {
    return begin <= bytes && length <= bytes - begin;
  };
  bool whole = reaches(head.e_phoff, std::uint64_t{head.e_phnum} * sizeof(Elf64_Phdr)) &&
               reaches(head.e_shoff, std::uint64_t{head.e_shnum} * head.e_shentsize);
  for (std::uint32_t i = 0; whole && i < head.e_phnum; ++i) {
    Elf64_Phdr part{};
    std::memcpy(&part, data + head.e_phoff + i * sizeof part, sizeof part);
    whole = reaches(part.p_offset, part.p_filesz);
  }
  return whole ? LWMQ_OK
               : fail(LWMQ_E_CORRUPT,
                      "it ends after %" PRIu64 " bytes, and its headers speak of more: copy it anew", bytes);
}

// Everything short of loading it. The view has what was found out, also where it is refused.
Status check(const std::string& path, const std::string& trust, Image* out_image, lwmq_module_view* view) {
  copy_text(path, view->path, sizeof view->path);
  Status status = read_image(path, out_image);
  if (status != LWMQ_OK) return status;
  std::string text;
  status = read_file(path + ".sig", kSignatureBytesMax, &text);
  if (status == LWMQ_E_SYSTEM)
    return fail(LWMQ_E_DENIED, "not signed: %s.sig cannot be read", base_name(path).c_str());
  ModuleSignature signature;
  if (status == LWMQ_OK) status = parse_signature(text, &signature);
  if (status != LWMQ_OK) return status;
  view->expires_s = signature.expires_s;
  copy_text(hex_of(signature.key.data(), signature.key.size()), view->key, sizeof view->key);
  std::vector<TrustedKey> keys;
  status = read_trust(trust, &keys);
  if (status != LWMQ_OK) return status;
  const TrustedKey* signer = nullptr;
  status = check_signature(signature, base_name(path), out_image->memory.data(), out_image->memory.bytes(),
                           keys, now_s(), &signer);
  if (signer != nullptr) copy_text(signer->name, view->signer, sizeof view->signer);
  return status == LWMQ_OK ? check_whole(out_image->memory.data(), out_image->memory.bytes()) : status;
}

template <typename Table>
Status check_tables(const char* what, const Table* const* begin, const Table* const* end) noexcept {
  for (const auto* entry = begin; entry != nullptr && entry < end; ++entry) {
    if (*entry == nullptr) continue;
    const char* flaw = tli::flaw_of(**entry);
    if (flaw == nullptr) continue;
    const char* name = std::strcmp(flaw, "size") != 0 && (*entry)->name != nullptr ? (*entry)->name : "?";
    return fail(LWMQ_E_UNSUPPORTED, "its %s '%s' is not complete: missing or wrong is %s", what, name, flaw);
  }
  return LWMQ_OK;
}

// What was checked becomes code. The loader knows objects by the path they came by, so that the descriptor
// stays open for good: another module on the same number would be taken for this one.
Status load(Image& image, const lwmq_tli_module** out_module) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/fd/%d", image.fd.get());
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (library == nullptr) return fail(LWMQ_E_UNSUPPORTED, "the loader refuses it: %s", dlerror());
  const auto* module = static_cast<const lwmq_tli_module*>(dlsym(library, kEntryName));
  if (module == nullptr) return fail(LWMQ_E_UNSUPPORTED, "it is no module: LWMQ_TLI_MODULE is missing");
  if (module->size != sizeof *module || module->version != LWMQ_TLI_VERSION)
    return fail(LWMQ_E_VERSION, "it is made for version %u of lwmq_tli.h (%u bytes); this is %u (%zu bytes)",
                module->version, module->size, LWMQ_TLI_VERSION, sizeof *module);
  if (module->host == nullptr)
    return fail(LWMQ_E_UNSUPPORTED, "its table has no place for the host: say LWMQ_TLI_MODULE");
  *module->host = &tli::host();
  Status status = check_tables("provider", module->providers, module->providers_end);
  if (status == LWMQ_OK) status = check_tables("filter", module->filters, module->filters_end);
  if (status == LWMQ_OK) *out_module = module;
  return status;
}

struct Module {
  lwmq_module_view view{};
  Image image;
  const lwmq_tli_module* table = nullptr;  // null: refused
};

// Never destroyed.
struct Modules {
  std::vector<std::unique_ptr<Module>> all;
  Modules();
  void add(const std::string& path);
};

void Modules::add(const std::string& path) {
  auto module = std::make_unique<Module>();
  lwmq_module_view& view = module->view;
  Status status = check(path, trust_path(), &module->image, &view);
  if (status == LWMQ_OK) {
    status = load(module->image, &module->table);
  } else {
    module->image = Image{};
  }
  view.size = sizeof view;
  view.status = status;
  view.loaded = status == LWMQ_OK ? 1 : 0;
  if (status == LWMQ_OK) {
    copy_text(module->table->name != nullptr ? module->table->name : "", view.name, sizeof view.name);
  } else {
    copy_text(last_error(), view.text, sizeof view.text);
    std::fprintf(stderr, "lwmq: module %s is refused: %s\n", view.path, view.text);
  }
  all.push_back(std::move(module));
}

Modules::Modules() {
  const char* named = secure_getenv("LWMQ_MODULE_PATH");
  std::string_view rest = named != nullptr ? named : "";
  std::set<std::pair<dev_t, ino_t>> seen;  // a folder may be named twice
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    const std::string folder(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
    if (folder.empty()) continue;
    const std::unique_ptr<DIR, int (*)(DIR*)> directory(opendir(folder.c_str()), closedir);
    if (directory == nullptr) {
      std::fprintf(stderr, "lwmq: LWMQ_MODULE_PATH: %s: %s\n", folder.c_str(), std::strerror(errno));
      continue;
    }
    std::vector<std::string> names;
    while (const dirent* at = readdir(directory.get())) {
      const std::string_view name(at->d_name);
      if (name.size() > 3 && name.substr(name.size() - 3) == ".so") names.emplace_back(name);
    }
    std::sort(names.begin(), names.end());
    for (const auto& name : names) {
      if (all.size() == kModulesMax) {
        std::fprintf(stderr, "lwmq: more than %zu modules: %s is passed over\n", kModulesMax, name.c_str());
        continue;
      }
      std::string path = folder;
      path += '/';
      path += name;
      struct stat file {};
      if (stat(path.c_str(), &file) == 0 && !seen.emplace(file.st_dev, file.st_ino).second) continue;
      add(path);
    }
  }
}

// Entered again by a module whose constructor asks for providers: it sees none yet.
thread_local bool t_loading = false;

const Modules* modules() noexcept {
  if (t_loading) return nullptr;
  t_loading = true;
  static const auto* instance = new Modules;
  t_loading = false;
  return instance;
}

template <typename Bounds>
auto table_at(std::uint32_t index, Bounds bounds) noexcept -> decltype(bounds(lwmq_tli_module{}).first) {
  const Modules* known = modules();
  if (known == nullptr) return nullptr;
  for (const auto& module : known->all) {
    if (module->table == nullptr) continue;
    const auto [begin, end] = bounds(*module->table);
    if (begin == nullptr || end <= begin) continue;
    const auto count = static_cast<std::uint32_t>(end - begin);
    if (index < count) return begin + index;
    index -= count;
  }
  return nullptr;
}

}  // namespace

const lwmq_tli_provider* const* module_provider_at(std::uint32_t index) noexcept {
  return table_at(index, [](const lwmq_tli_module& m) { return std::pair(m.providers, m.providers_end); });
}

const lwmq_tli_filter* const* module_filter_at(std::uint32_t index) noexcept {
  return table_at(index, [](const lwmq_tli_module& m) { return std::pair(m.filters, m.filters_end); });
}

Status query_module(std::uint32_t index, lwmq_module_view* out_view) noexcept {
  const Modules* known = modules();
  const std::size_t count = known == nullptr ? 0 : known->all.size();
  if (index >= count) return fail(LWMQ_E_INVALID, "module %u of %zu", index, count);
  *out_view = known->all[index]->view;
  return LWMQ_OK;
}

Status verify_module(const char* path, const char* trust, lwmq_module_view* out_view) {
  Image image;
  const Status status = check(path, trust != nullptr ? trust : trust_path(), &image, out_view);
  out_view->status = status;
  if (status != LWMQ_OK) copy_text(last_error(), out_view->text, sizeof out_view->text);
  return status;
}

Status sign_module(const char* path, const char* key, std::uint64_t expires_s) {
  std::string bytes;
  std::string text;
  Status status = read_file(key, 4096, &text);
  if (status != LWMQ_OK) return status;
  os::SecretKey secret{};
  std::string_view line(text);
  if (line.substr(0, kKeyLine.size()) != kKeyLine || line.back() != '\n' ||
      !parse_hex(line.substr(kKeyLine.size(), line.size() - kKeyLine.size() - 1), secret.data(),
                 secret.size()))
    return fail(LWMQ_E_CORRUPT, "%s is no secret key of `lwmq module key`", key);
  status = read_file(path, kModuleBytesMax, &bytes);
  if (status == LWMQ_OK) {
    status = check_whole(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
    if (status != LWMQ_OK) add_context(path);
  }
  if (status != LWMQ_OK) return status;
  std::string signature;
  status = make_signature(base_name(path), bytes.data(), bytes.size(), secret, expires_s, &signature);
  if (status != LWMQ_OK) return status;
  // Beside it and then in its place: who loads the module meanwhile sees the old one or the new one.
  // It is new: nothing that others have put there is written to.
  const std::string place = std::string(path) + ".sig";
  std::string beside = place + "." + std::string(6, 'X');  // as mkostemp wants it
  const os::UniqueFd file(mkostemp(beside.data(), O_CLOEXEC));
  const bool written =
      file && fchmod(file.get(), 0644) == 0 &&
      write(file.get(), signature.data(), signature.size()) == static_cast<ssize_t>(signature.size()) &&
      std::rename(beside.c_str(), place.c_str()) == 0;
  if (written) return LWMQ_OK;
  status = fail_errno(LWMQ_E_SYSTEM, errno, "%s", place.c_str());
  if (file) unlink(beside.c_str());
  return status;
}

Status make_module_key(const char* key, char out_public[72]) {
  os::SecretKey secret{};
  os::PublicKey open_key{};
  os::random_bytes(secret.data(), secret.size());
  const Status status = os::public_key_of(secret, &open_key);
  if (status != LWMQ_OK) return status;
  const std::string text = std::string(kKeyLine) + hex_of(secret.data(), secret.size()) + "\n";
  const os::UniqueFd fd(open(key, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || write(fd.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size()))
    return fail_errno(LWMQ_E_SYSTEM, errno, "%s", key);
  copy_text(hex_of(open_key.data(), open_key.size()), out_public, 72);
  return LWMQ_OK;
}

}  // namespace lwmq::modules
