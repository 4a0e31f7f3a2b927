// A connection that is no socket, and by which one end writes memory of the other. It carries the same bytes
// as a socket would: in order, both ways, whole or with an end that both sides learn of. No call waits.
//
// A piece of a lane goes in two parts then: its bytes straight into the mirror that the peer has of our
// side, and only its head by the stream. Whatever is written to the peer's memory is there before the stream
// brings what was written to the stream later.
//
// Threads: any thread calls any of it, one at a time for `read` and one for what sends.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "sockets/family.h"

namespace lwmq::sockets {

// Memory as its owner tells it to the peer.
struct Exposed {
  std::uint64_t at;
  std::uint32_t key;
};

class Link {
 public:
  virtual ~Link() = default;
  // Becomes readable with the next news after `arm`: of bytes, of room, or of the end.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  // True: there are news that nobody has read; fd may tell of none of them.
  virtual bool arm() noexcept = 0;
  // The next steps of connecting. LWMQ_OK: connected. LWMQ_E_FULL: not yet. LWMQ_E_EMPTY: nobody listens
  // there. Any other failure has a text.
  virtual Status connect() noexcept = 0;

  // As sendmsg and readv of a socket that does not block.
  virtual ssize_t write(const iovec* pieces, std::size_t count) noexcept = 0;
  virtual ssize_t read(const iovec* room, std::size_t count) noexcept = 0;
  // Says that nothing follows: the peer reads an end of file. False: not yet, say it again.
  virtual bool finish() noexcept = 0;
  // Whether the peer has given a sign of life since the last call. If not, the device asks the peer's device
  // for one, without its process. kNoneAwaited: the peer cannot be asked.
  virtual Answer ask() noexcept = 0;
  // Ends both directions at once; whatever is on its way is lost.
  virtual void shut() noexcept = 0;

  // Lets the peer write memory of ours until `hide`. LWMQ_E_NO_MEMORY, with the limit that it met.
  virtual Status expose(void* memory, std::uint64_t bytes, Exposed* out_exposed) = 0;
  // When it returns, the peer can write there no more.
  virtual void hide(std::uint32_t key) noexcept = 0;
  // Prepares memory of ours to be written from, until it is forgotten. Memory that the device does not take
  // is copied when it is written from. LWMQ_E_NO_MEMORY.
  virtual Status know(const void* memory, std::uint64_t bytes) = 0;
  virtual void forget(const void* memory) noexcept = 0;
  // Begins to write to memory of the peer, at most `bytes`. Returns how many, and the number of this write,
  // or -1: there is no room now. What is written from stays as it is until `written` has come to that number;
  // it comes there without further writes if `is_last`.
  virtual ssize_t write_memory(const void* from, std::uint64_t bytes, const Exposed& to, bool is_last,
                               std::uint64_t* out_number) noexcept = 0;
  // The number of the last write that is over, together with all before it.
  [[nodiscard]] virtual std::uint64_t written() noexcept = 0;
};

// Serves one port.
class Door {
 public:
  virtual ~Door() = default;
  // Readable when clients want to come in.
  [[nodiscard]] virtual int fd() const noexcept = 0;
  [[nodiscard]] virtual const Place& place() const noexcept = 0;
  // The next client. LWMQ_E_EMPTY: nobody is there now. Any other failure: a client was refused, for the
  // reason in the text.
  virtual Status accept(std::unique_ptr<Link>* out_link, Place* out_peer) = 0;
};

}  // namespace lwmq::sockets
