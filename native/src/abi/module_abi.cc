// The C face of modules.
#include <cstring>

#include "abi/options.h"
#include "base/status.h"
#include "lwmq/lwmq.h"
#include "modules/modules.h"

using lwmq::fail;

extern "C" {

lwmq_status lwmq_query_module(uint32_t index, lwmq_module_view* out_view) {
  LWMQ_SIZED(out_view);
  if (out_view == nullptr) return fail(LWMQ_E_INVALID, "lwmq_query_module: out_view is NULL");
  lwmq_module_view view{};
  const lwmq_status status = lwmq::modules::query_module(index, &view);
  if (status == LWMQ_OK) lwmq::abi::write_output(view, out_view);
  return status;
}

lwmq_status lwmq_module_verify(const char* path, const char* trust, lwmq_module_view* out_view) {
  LWMQ_SIZED(out_view);
  if (path == nullptr || out_view == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_module_verify: an argument is NULL");
  lwmq_module_view view{};
  const lwmq_status status = lwmq::modules::verify_module(path, trust, &view);
  lwmq::abi::write_output(view, out_view);
  return status;
}

lwmq_status lwmq_module_sign(const char* path, const char* key, uint64_t expires_s) {
  if (path == nullptr || key == nullptr) return fail(LWMQ_E_INVALID, "lwmq_module_sign: an argument is NULL");
  return lwmq::modules::sign_module(path, key, expires_s);
}

lwmq_status lwmq_module_make_key(const char* key, char out_public[72]) {
  if (key == nullptr || out_public == nullptr)
    return fail(LWMQ_E_INVALID, "lwmq_module_make_key: an argument is NULL");
  return lwmq::modules::make_module_key(key, out_public);
}

}  // extern "C"
