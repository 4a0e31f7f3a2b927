/* The sample of a module from outside: the toy provider and a filter of its own, made from lwmq_tli.h alone.
 *
 *     cc -shared -fPIC -fvisibility=hidden -I native/include sample_module.c -o toy.so
 *     lwmq module sign toy.so --key my.key
 */
#include "foreign_provider.c"

static lwmq_status create_upper(const char* settings, uint32_t way, void** out_filter) {
  static int nothing;
  if (settings[0] != '\0') return LWMQ_E_INVALID;
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

static const lwmq_tli_filter kUpper = {
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

LWMQ_TLI_REGISTER_FILTER(kUpper);
LWMQ_TLI_MODULE("toy");
