// Bytes of messages: extents of a channel, and every letter and record of a stream's conversation. What is
// read is written again as it was.
#include <string>
#include <vector>

#include "codec/decoder.h"
#include "codec/encoder.h"
#include "input.h"
#include "message/message.h"
#include "message/owner.h"
#include "stream/link.h"
#include "wire/stream_messages.h"

namespace lwmq::fuzz {
namespace {

void decode_message(std::uint32_t kind, const std::string& extent) {
  const std::vector<std::uint8_t> exact(extent.begin(), extent.end());
  message::Owner owner([](message::Owner*) noexcept {});
  Message* copied = nullptr;
  Message* viewed = nullptr;
  const Status status = codec::decode_copy(exact.data(), exact.size(), kind, &copied);
  require(codec::decode_view(exact.data(), exact.size(), kind, &owner, &viewed) == status,
          "copy and view agree");
  require(status == LWMQ_OK || status == LWMQ_E_CORRUPT, "bytes are a message or corrupt");
  if (status != LWMQ_OK) return;
  const codec::Encoding encoding = codec::measure(*copied);
  require(encoding.bytes == exact.size() || kind == 2, "a message is as long as its extent");
  std::vector<std::uint8_t> again(encoding.bytes);
  codec::encode(*copied, again.data());
  Message::destroy(copied);
  Message::destroy(viewed);
  require(owner.references == 1, "a message gives back what it kept");
}

template <typename Letter>
void decode_letter(const std::string& bytes) {
  Letter letter;
  if (!wire::decode(bytes, &letter)) return;
  require(wire::encode(letter) == bytes, "a letter that was read is written as it was");
}

template <typename Record>
void decode_record(const std::string& bytes) {
  Record record;
  if (stream::read_record(bytes, &record)) require(bytes.size() == sizeof record, "a record has its size");
}

}  // namespace
}  // namespace lwmq::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace lwmq::fuzz;
  namespace wire = lwmq::wire;
  Input input(data, size);
  const auto what = input.take<std::uint8_t>();
  const std::string bytes = input.rest();
  switch (what) {
    case 10:
      decode_letter<wire::OpenProducer>(bytes);
      break;
    case 11:
      decode_letter<wire::OpenReader>(bytes);
      break;
    case 12:
      decode_letter<wire::Opened>(bytes);
      break;
    case 13:
      decode_letter<wire::Text>(bytes);
      break;
    case 14:
      decode_letter<wire::CommitJob>(bytes);
      break;
    case 15:
      decode_letter<wire::Describe>(bytes);
      break;
    case 16:
      decode_letter<wire::State>(bytes);
      break;
    case 17:
      decode_letter<wire::Settle>(bytes);
      break;
    case 18:
      decode_record<wire::Batch>(bytes);
      break;
    case 19:
      decode_letter<wire::HeldUp>(bytes);
      break;
    default:
      decode_message(what, bytes);
  }
  return 0;
}
