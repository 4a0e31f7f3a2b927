// The family of TCP's sockets.
#pragma once

#include "sockets/family.h"

namespace lwmq::tcp {

extern const sockets::Family kFamily;

}  // namespace lwmq::tcp
