// Where a reader of a run stands, and what a stream that ended means for it. All rules of resuming are here, without a
// network, a clock or a thread: it knows the messages of the contract and status codes, and nothing of calls.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "turnwire/v1/event.pb.h"
#include "turnwire/v1/turn_service.pb.h"

namespace turnwire {

using std::chrono::milliseconds;

// How often and how fast a cut stream is taken up again.
struct Resume {
  // Calls in a row that bring nothing new; 0 never resumes.
  int attempts = 8;
  // Before the first such attempt. It doubles with each, and a random part of up to half is taken off.
  milliseconds initial_delay{100};
  milliseconds max_delay{5000};

  // How long to wait after this many calls in a row that brought nothing, from 1.
  [[nodiscard]] milliseconds delay(int failures) const;
};

// What one frame brought.
struct Update {
  // Perhaps none. An event of a case that this client does not know has EVENT_NOT_SET; it counts like any other.
  std::vector<v1::RunEvent> events;
  // When set, first discard every event after this sequence number: the run was taken over by another server, and
  // those events never became part of it.
  std::optional<std::int64_t> rewind_to;
  // The place after the events. A later WatchRun goes on from it.
  v1::Cursor cursor;
};

// What follow() takes: a turn to run, or a run to watch.
using Request = std::variant<v1::RunTurnRequest, v1::WatchRunRequest>;

// A frame of either stream: RunTurnResponse and WatchRunResponse are the same on the wire.
struct Frame {
  std::vector<v1::RunEvent> events;
  std::int64_t epoch = 0;
  std::int64_t through_sequence = 0;
  std::optional<std::int64_t> rewind_to;
};

// Reads one run through any number of calls: request() says what to call, apply() takes what it brings, cut() and
// failed() say what its end means.
class Reader {
 public:
  // A turn without a request_id gets one: without, trying again before the first answer could start a second run.
  Reader(Request request, const Resume& resume);

  // The next call: the turn until its run is known, then a watch. Both go on after the cursor.
  [[nodiscard]] Request request() const;

  // What the frame brings; nothing for a heartbeat.
  std::optional<Update> apply(Frame frame);

  // The call ended with OK: how long to wait for the next one, or nothing when that was its proper end. A reader that
  // begins after the last event is sent no frame: OK is then all that is left to say. Throws StreamLost.
  std::optional<milliseconds> cut();

  // The call ended with an error: how long to wait for the next one. Throws StreamLost, or what the error means when
  // calling again would only bring it again.
  milliseconds failed(const grpc::Status& status);

  [[nodiscard]] const std::string& run_id() const { return run_id_; }  // empty until it is known
  [[nodiscard]] const v1::Cursor& cursor() const { return cursor_; }
  [[nodiscard]] bool finished() const { return finished_; }

 private:
  void see(const v1::RunEvent& event);
  milliseconds next_delay(const std::string& why);

  Resume resume_;
  std::optional<v1::RunTurnRequest> turn_;
  v1::StreamDetail detail_;
  v1::OnWait on_wait_;
  std::string run_id_;
  v1::Cursor cursor_;
  int failures_ = 0;
  bool waiting_ = false;
  bool at_end_;  // perhaps: until a frame comes
  bool finished_ = false;
};

// A random UUID.
std::string new_request_id();

}  // namespace turnwire
