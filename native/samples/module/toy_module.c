/* A module from outside: the provider beside this file, and a filter.
 *
 *     cc -shared -fPIC -fvisibility=hidden $(lwmq info --flags) toy_module.c toy_provider.c -o toy.so
 *     lwmq module key my.key --name me >> my.keys         # once
 *     lwmq module sign toy.so --key my.key
 *     LWMQ_MODULE_PATH=. LWMQ_MODULE_TRUST=my.keys lwmq module list
 */
#include "lwmq/lwmq_tli.h"

static lwmq_status create_upper(const char* settings, uint32_t way, void** out_filter) {
  static int nothing; /* it keeps nothing in mind */
  if (settings[0] != '\0') return lwmq_tli_fail(LWMQ_E_INVALID, "upper=%s: it has no settings", settings);
  if (way != 0) *out_filter = &nothing;
  return LWMQ_OK;
}

static void see_upper(void* filter, lwmq_tli_passing* passing, lwmq_tli_verdict* out_verdict) {
  (void)filter;
  for (uint64_t i = 0; i < passing->bytes; ++i) {
    if (passing->data[i] >= 'a' && passing->data[i] <= 'z') {
      passing->data[i] = (uint8_t)(passing->data[i] - 'a' + 'A');
      out_verdict->changed = 1;
    }
  }
}

static void destroy_upper(void* filter) { (void)filter; }

static const lwmq_tli_filter upper = {
    .size = sizeof(lwmq_tli_filter),
    .version = LWMQ_TLI_VERSION,
    .name = "upper",
    .help = "upper: makes capitals",
    .ways = LWMQ_TLI_SENDING,
    .rewrites = LWMQ_TLI_SENDING,
    .create = create_upper,
    .see = see_upper,
    .destroy = destroy_upper,
};

LWMQ_TLI_REGISTER_FILTER(upper);
LWMQ_TLI_MODULE("toy");
