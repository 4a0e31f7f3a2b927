// What lets go of a channel that is about to be destroyed. The order matters: a call-back that still runs may
// add the channel to a selector or a router.
#include "channel/observers.h"
#include "patterns/notice.h"
#include "patterns/requests.h"
#include "patterns/router.h"
#include "patterns/selector.h"

namespace lwmq::patterns {
namespace {

const channel::OnDestroy on_destroy([](Channel& channel) {
  notify(channel, nullptr, 0, nullptr);
  Selector::forget_everywhere(&channel);
  Requests::forget_everywhere(&channel);
  Router::forget_everywhere(&channel);
});

}  // namespace
}  // namespace lwmq::patterns
