#include "turnwire/cursor.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <random>
#include <type_traits>
#include <utility>

#include "turnwire/errors.h"

namespace turnwire {
namespace {

std::mt19937_64& random_numbers() {
  thread_local std::mt19937_64 numbers{std::random_device{}()};
  return numbers;
}

// Whether an error says that the connection broke, rather than what the server thinks of the call: every error of a
// server has details, and one made on the way to it has none.
bool is_cut(const grpc::Status& status) {
  switch (status.error_code()) {
    case grpc::StatusCode::UNAVAILABLE:
      return true;
    case grpc::StatusCode::CANCELLED:
    case grpc::StatusCode::INTERNAL:
    case grpc::StatusCode::UNKNOWN:
      return status.error_details().empty();
    default:
      return false;
  }
}

}  // namespace

milliseconds Resume::delay(int failures) const {
  const double doubled = static_cast<double>(initial_delay.count()) * std::exp2(std::min(failures - 1, 30));
  const double longest = std::min(doubled, static_cast<double>(max_delay.count()));
  const double taken_off = std::uniform_real_distribution<double>(0, 0.5)(random_numbers());
  return milliseconds(std::llround(longest * (1 - taken_off)));
}

std::string new_request_id() {
  // RFC 9562, version 4. Another caller must not be able to guess it.
  std::random_device source;
  std::array<unsigned, 4> word{};
  for (unsigned& each : word) each = source();
  word[1] = (word[1] & 0xffff0fffU) | 0x4000U;
  word[2] = (word[2] & 0x3fffffffU) | 0x80000000U;
  std::array<char, 37> text{};
  std::snprintf(text.data(), text.size(), "%08x-%04x-%04x-%04x-%04x%08x", word[0], word[1] >> 16U, word[1] & 0xffffU,
                word[2] >> 16U, word[2] & 0xffffU, word[3]);
  return text.data();
}

Reader::Reader(Request request, const Resume& resume) : resume_(resume) {
  std::visit(
      [this](auto& given) {
        detail_ = given.stream_detail();
        on_wait_ = given.on_wait();
        cursor_ = given.after();
        if constexpr (std::is_same_v<std::decay_t<decltype(given)>, v1::RunTurnRequest>) {
          turn_ = std::move(given);
          if (turn_->turn().request_id().empty()) turn_->mutable_turn()->set_request_id(new_request_id());
        } else {
          run_id_ = given.run_id();
        }
      },
      request);
  at_end_ = cursor_.sequence() > 0;
}

Request Reader::request() const {
  if (turn_ && run_id_.empty()) {
    v1::RunTurnRequest turn = *turn_;
    if (cursor_.sequence() > 0) *turn.mutable_after() = cursor_;
    return turn;
  }
  v1::WatchRunRequest watch;
  watch.set_run_id(run_id_);
  *watch.mutable_after() = cursor_;
  watch.set_stream_detail(detail_);
  watch.set_on_wait(on_wait_);
  return watch;
}

std::optional<Update> Reader::apply(Frame frame) {
  at_end_ = false;
  if (frame.rewind_to) cursor_.set_sequence(std::min(cursor_.sequence(), *frame.rewind_to));
  const auto epoch = cursor_.epoch();
  const auto sequence = cursor_.sequence();
  std::vector<v1::RunEvent> events;
  for (v1::RunEvent& event : frame.events) {
    if (event.sequence() <= cursor_.sequence()) continue;
    cursor_.set_sequence(event.sequence());
    see(event);
    events.push_back(std::move(event));
  }
  if (frame.epoch != 0) cursor_.set_epoch(frame.epoch);
  cursor_.set_sequence(std::max(cursor_.sequence(), frame.through_sequence));
  if (cursor_.epoch() != epoch || cursor_.sequence() != sequence) failures_ = 0;
  if (events.empty() && !frame.rewind_to) return std::nullopt;
  return Update{std::move(events), frame.rewind_to, cursor_};
}

void Reader::see(const v1::RunEvent& event) {
  switch (event.event_case()) {
    case v1::RunEvent::kRunWaiting:
      waiting_ = true;  // until it goes on: more may be told meanwhile
      break;
    case v1::RunEvent::kRunResumed:
      waiting_ = false;
      break;
    case v1::RunEvent::kRunStarted:
      run_id_ = event.run_started().run_id();
      break;
    case v1::RunEvent::kRunFinished:
      finished_ = true;
      break;
    default:
      break;
  }
}

std::optional<milliseconds> Reader::cut() {
  if (finished_ || at_end_ || (waiting_ && on_wait_ == v1::ON_WAIT_CLOSE)) return std::nullopt;
  return next_delay("");
}

milliseconds Reader::failed(const grpc::Status& status) {
  if (!is_cut(status)) throw_status(status);
  return next_delay(std::string(code_name(status.error_code())) + ": " + status.error_message());
}

milliseconds Reader::next_delay(const std::string& why) {
  if (++failures_ > resume_.attempts) throw StreamLost(run_id_, cursor_, why);
  return resume_.delay(failures_);
}

}  // namespace turnwire
