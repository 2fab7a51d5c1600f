// follow(): the events of a run, across cut connections, until it has ended.
#pragma once

#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <stop_token>
#include <utility>

#include "turnwire/cursor.h"

namespace turnwire {

class Client;

// How a run is followed.
struct FollowOptions {
  // Time over all calls. It is the deadline of the call, which RunTurn takes as a limit of the run.
  std::optional<milliseconds> timeout;
  // How a cut stream is taken up again.
  Resume resume;
  // Asked to stop, the call is cancelled and next() throws Cancelled, in whatever thread it waits.
  std::stop_token stop;
};

// What happens in a run, as it comes. For one thread at a time. Destroying it cancels the call.
//
//   for (const turnwire::Update& update : client.follow(request)) …
class Updates {
 public:
  Updates(Updates&&) noexcept;
  Updates& operator=(Updates&&) noexcept;
  ~Updates();

  // Waits for the next update; nothing after the last one. Throws Error, StreamLost, DeadlineExceeded or Cancelled, and
  // is at its end then.
  std::optional<Update> next();

  // An input iterator.
  class Iterator {
   public:
    using iterator_concept = std::input_iterator_tag;
    using difference_type = std::ptrdiff_t;
    using value_type = Update;

    explicit Iterator(Updates* updates) : updates_(updates), update_(updates->next()) {}
    Update& operator*() const { return *update_; }
    Iterator& operator++() {
      update_ = updates_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    bool operator==(std::default_sentinel_t) const { return !update_; }

   private:
    Updates* updates_;
    mutable std::optional<Update> update_;  // an input iterator gives what it has to be moved from
  };
  Iterator begin() { return Iterator(this); }
  [[nodiscard]] std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  friend class Client;
  struct State;
  explicit Updates(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

}  // namespace turnwire
