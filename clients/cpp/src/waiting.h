// Deadlines and waits that can be broken off.
#pragma once

#include <grpcpp/client_context.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <stop_token>

#include "turnwire/cursor.h"
#include "turnwire/errors.h"

namespace turnwire::internal {

using Clock = std::chrono::steady_clock;  // somebody may set the other one
using Deadline = std::optional<Clock::time_point>;

// The moment after this time. More than a clock can show is as good as never.
inline Deadline after(std::optional<milliseconds> time) {
  constexpr milliseconds kYears = std::chrono::hours(24 * 365 * 10);
  if (!time) return std::nullopt;
  return Clock::now() + std::min(*time, kYears);
}

// What is left until then, not less than nothing.
inline std::optional<milliseconds> left(const Deadline& deadline) {
  if (!deadline) return std::nullopt;
  return std::max(std::chrono::ceil<milliseconds>(*deadline - Clock::now()), milliseconds(0));
}

// Gives the call what is left until then.
inline void limit(grpc::ClientContext& context, const Deadline& deadline) {
  if (const auto time = left(deadline)) context.set_deadline(std::chrono::system_clock::now() + *time);
}

// Throws Cancelled when the token is asked to stop meanwhile, and DeadlineExceeded when the deadline passes.
inline void pause(milliseconds time, const Deadline& deadline, const std::stop_token& stop) {
  const auto until = Clock::now() + time;
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_until(lock, stop, deadline ? std::min(until, *deadline) : until, [] { return false; });
  if (stop.stop_requested()) throw Cancelled();
  if (deadline && Clock::now() >= *deadline) throw DeadlineExceeded();
}

// Cancels a call when a token is asked to stop: std::stop_callback<Cancelling>. Safe before the call has begun.
struct Cancelling {
  grpc::ClientContext* context;
  void operator()() const { context->TryCancel(); }
};

}  // namespace turnwire::internal
