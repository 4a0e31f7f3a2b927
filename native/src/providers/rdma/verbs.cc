#include "providers/rdma/verbs.h"

#include <dlfcn.h>

namespace lwmq::rdma {
namespace {

struct Library : Verbs {
  bool complete = false;

  Library() noexcept {
    void* const verbs = dlopen("libibverbs.so.1", RTLD_NOW | RTLD_LOCAL);
    void* const cm = dlopen("librdmacm.so.1", RTLD_NOW | RTLD_LOCAL);
    if (verbs == nullptr || cm == nullptr) return;
    complete = true;
#define LWMQ_FIND_IN(library, name)                                           \
  this->name = reinterpret_cast<decltype(this->name)>(dlsym(library, #name)); \
  complete = complete && this->name != nullptr;
#define LWMQ_FIND_VERB(name) LWMQ_FIND_IN(verbs, name)
#define LWMQ_FIND_CM(name) LWMQ_FIND_IN(cm, name)
    LWMQ_VERBS_FUNCTIONS(LWMQ_FIND_VERB)
    LWMQ_RDMACM_FUNCTIONS(LWMQ_FIND_CM)
#undef LWMQ_FIND_VERB
#undef LWMQ_FIND_CM
#undef LWMQ_FIND_IN
    // A forked child may write to pages that it shares with memory that a device knows.
    if (complete) ibv_fork_init();
  }
};

}  // namespace

Status open_verbs(const Verbs** out_verbs) noexcept {
  static const auto* instance = new Library;  // never destroyed, never closed
  *out_verbs = instance;
  if (instance->complete) return LWMQ_OK;
  return fail(LWMQ_E_UNSUPPORTED,
              "libibverbs.so.1 and librdmacm.so.1, which reach RDMA devices, cannot be opened: install "
              "libibverbs1, ibverbs-providers and librdmacm1");
}

}  // namespace lwmq::rdma
