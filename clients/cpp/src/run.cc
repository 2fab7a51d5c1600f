// run(): follows a turn and answers what it waits for.
#include "turnwire/run.h"

#include <atomic>
#include <exception>
#include <list>
#include <mutex>
#include <thread>
#include <unordered_set>
#include <utility>

#include "turnwire/client.h"
#include "turnwire/errors.h"
#include "turnwire/v1/turn_service.grpc.pb.h"
#include "waiting.h"

namespace turnwire {
namespace {

constexpr milliseconds kCancelTime{5000};

// Whether a run goes on when the stream that began it is left.
bool outlives_stream(const v1::RunTurnRequest& request) {
  switch (request.on_disconnect()) {
    case v1::ON_DISCONNECT_UNSPECIFIED:
      return !request.turn().session_id().empty();
    case v1::ON_DISCONNECT_CANCEL:
      return false;
    default:
      return true;
  }
}

// Somebody or something else was first; the stream says so too.
bool is_late(const Error& error) {
  return error.reason() == "RUN_SETTLED" || error.reason() == "APPROVAL_ALREADY_RESOLVED" ||
         error.reason() == "APPROVAL_NOT_FOUND";
}

// Whether what the run waits for may be another thing after this.
bool bears_on_waiting(const Update& update) {
  if (update.rewind_to) return true;
  for (const v1::RunEvent& event : update.events) {
    switch (event.event_case()) {
      case v1::RunEvent::kRunWaiting:
      case v1::RunEvent::kRunResumed:
      case v1::RunEvent::kRunFinished:
      case v1::RunEvent::kApprovalResolved:
      case v1::RunEvent::kToolCallFinished:
        return true;
      default:
        break;
    }
  }
  return false;
}

v1::ToolResult result_of(const v1::ToolCall& call, const Tool& tool, const std::stop_token& stop) {
  v1::ToolResult result;
  result.set_call_id(call.call_id());
  result.set_status(v1::TOOL_RESULT_STATUS_OK);
  v1::Part* part = result.add_content();
  try {
    const ToolValue value = tool(call.arguments_json(), stop);
    value.is_json() ? part->set_data_json(value.words()) : part->set_text(value.words());
  } catch (const std::exception& error) {  // of somebody's function: the model is told
    result.set_status(v1::TOOL_RESULT_STATUS_ERROR);
    part->set_text(error.what());
  } catch (...) {
    result.set_status(v1::TOOL_RESULT_STATUS_ERROR);
    part->set_text("the function failed");
  }
  return result;
}

// Threads that answer. The first error of one of them, but that it came late, stops all.
class Answers {
 public:
  Answers(const Client& client, const RunOptions& options) : client_(client), options_(options) {}

  // Begins to answer what is new. False when there is something, and nothing of it can be answered.
  bool begin(const std::string& run_id, const v1::RunWaiting& waiting) {
    // Where both are empty all has settled, and the run is about to go on.
    bool hope = waiting.approvals().empty() && waiting.client_tool_calls().empty();
    for (const v1::ToolCall& call : waiting.client_tool_calls()) {
      const auto tool = options_.tools.find(call.tool().routed_name());
      if (tool == options_.tools.end()) continue;
      hope = true;
      once("call " + call.call_id(),
           [this, run_id, call, &function = tool->second] { submit(run_id, call, function); });
    }
    for (const v1::Approval& approval : waiting.approvals()) {
      if (!options_.approve) break;
      hope = true;
      once("approval " + approval.approval_id(), [this, run_id, approval] { resolve(run_id, approval); });
    }
    return hope;
  }

  // Ends the functions, and the calls and streams that have this token.
  void stop() { stop_.request_stop(); }
  [[nodiscard]] std::stop_token token() const { return stop_.get_token(); }

  void join() { works_.clear(); }

  // What an answer failed with, if one has.
  [[nodiscard]] std::exception_ptr failure() const {
    const std::lock_guard lock(mutex_);
    return failure_;
  }

 private:
  struct Work {
    std::atomic<bool> done = false;
    std::jthread thread;
  };

  void once(const std::string& id, std::function<void()> answer) {
    if (stop_.stop_requested() || !begun_.insert(id).second) return;
    works_.remove_if([](const Work& work) { return work.done.load(); });
    Work& work = works_.emplace_back();
    work.thread = std::jthread([this, &work, answer = std::move(answer)] {
      try {
        answer();
      } catch (const Error& error) {
        if (!is_late(error)) fail(std::current_exception());
      } catch (...) {
        fail(std::current_exception());
      }
      work.done = true;
    });
  }

  void fail(std::exception_ptr error) {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_ && !stop_.stop_requested()) failure_ = std::move(error);
    }
    stop();
  }

  void submit(const std::string& run_id, const v1::ToolCall& call, const Tool& tool) const {
    v1::SubmitToolResultsRequest request;
    request.set_run_id(run_id);
    *request.add_results() = result_of(call, tool, token());
    // What a function says that was told to stop is no result: with that token nothing is called any more.
    send(&v1::TurnService::Stub::SubmitToolResults, request);
  }

  void resolve(const std::string& run_id, const v1::Approval& approval) const {
    Decision decision = options_.approve(approval, token());
    v1::ResolveApprovalRequest request;
    request.set_run_id(run_id);
    request.set_approval_id(approval.approval_id());
    request.set_decision(decision.decision);
    request.set_comment(std::move(decision.comment));
    for (std::string& pattern : decision.always_patterns) request.add_always_patterns(std::move(pattern));
    request.set_call_digest(approval.call_digest());
    if (decision.input_json) request.set_input_json(std::move(*decision.input_json));
    send(&v1::TurnService::Stub::ResolveApproval, request);
  }

  // An answer is worth as many attempts as the stream: a server that starts again is away for seconds.
  template <class Asked, class Answer>
  void send(grpc::Status (v1::TurnService::Stub::*method)(grpc::ClientContext*, const Asked&, Answer*),
            const Asked& request) const {
    for (int failures = 1;; ++failures) {
      try {
        client_.call(method, request, {std::nullopt, token()});
        return;
      } catch (const Error& error) {
        if (error.code() != grpc::StatusCode::UNAVAILABLE || failures > options_.resume.attempts) throw;
      }
      internal::pause(options_.resume.delay(failures), std::nullopt, token());
    }
  }

  const Client& client_;
  const RunOptions& options_;
  std::stop_source stop_;
  std::unordered_set<std::string> begun_;
  mutable std::mutex mutex_;
  std::exception_ptr failure_;
  std::list<Work> works_;  // the last member: it is joined before the others go
};

// One run that is followed and answered.
class Driver {
 public:
  Driver(const Client& client, RunOptions options)
      : client_(client), options_(std::move(options)), answers_(client_, options_) {}

  RunView run(v1::RunTurnRequest request) {
    const std::stop_callback forward(options_.stop, [this] { answers_.stop(); });
    const bool outlives = outlives_stream(request);
    std::exception_ptr ended;
    try {
      both(std::move(request));
    } catch (...) {  // not only ours: what is shown updates may throw too
      ended = std::current_exception();
    }
    const std::exception_ptr failure = answers_.failure();
    answers_.stop();
    if (ended && (failure || !broken_) && !outlives) cancel();
    answers_.join();
    if (ended) std::rethrow_exception(failure ? failure : ended);
    return std::move(view_);
  }

 private:
  // By RunTurn until it waits, since leaving that stream would end it, and then by WatchRun.
  void both(v1::RunTurnRequest turn) {
    const internal::Deadline deadline = internal::after(options_.timeout);
    const v1::StreamDetail detail = turn.stream_detail();
    turn.set_on_wait(v1::ON_WAIT_CLOSE);
    read(std::move(turn), deadline, false);
    if (!answering_) return;
    v1::WatchRunRequest watch;
    watch.set_run_id(view_.run_id());
    *watch.mutable_after() = cursor_;
    watch.set_stream_detail(detail);
    watch.set_on_wait(v1::ON_WAIT_KEEP_OPEN);
    read(std::move(watch), deadline, true);
  }

  // A stream to its end, or to where nothing can be answered if it may be left.
  void read(Request request, const internal::Deadline& deadline, bool may_leave) {
    Updates updates = client_.follow(std::move(request), {internal::left(deadline), options_.resume, answers_.token()});
    while (std::optional<Update> update = next(updates)) {
      const bool bearing = bears_on_waiting(*update);
      cursor_ = update->cursor;
      view_.apply(options_.on_update ? *update : std::move(*update));
      const std::optional<v1::RunWaiting> waiting = bearing ? view_.waiting() : std::nullopt;
      has_waited_ = has_waited_ || waiting;
      if (options_.on_update) options_.on_update(*update, view_);
      if (!bearing) continue;
      answering_ = waiting && answers_.begin(view_.run_id(), *waiting);
      if (may_leave && waiting && !answering_) return;
    }
  }

  std::optional<Update> next(Updates& updates) {
    try {
      return updates.next();
    } catch (const Error&) {
      broken_ = true;
      throw;
    } catch (const StreamLost&) {
      broken_ = true;
      throw;
    }
  }

  // As the end of RunTurn's stream would have. What has begun to wait is past that stream.
  void cancel() const {
    if (!has_waited_ || view_.finished() != nullptr) return;
    v1::CancelRunRequest request;
    request.set_run_id(view_.run_id());
    request.set_comment("The caller has gone.");
    try {
      client_.call(&v1::TurnService::Stub::CancelRun, request, {kCancelTime, {}});
    } catch (const std::runtime_error&) {
      // Best effort, as a stream that breaks is: who called is gone.
    }
  }

  const Client client_;
  const RunOptions options_;
  RunView view_;
  v1::Cursor cursor_;
  bool has_waited_ = false;
  bool broken_ = false;     // the server or the network ended the stream, and not the caller
  bool answering_ = false;  // what it waits for now, in part at least
  Answers answers_;         // the last member: its threads use the others
};

}  // namespace

RunView Client::run(v1::RunTurnRequest request, RunOptions options) const {
  return Driver(*this, std::move(options)).run(std::move(request));
}

}  // namespace turnwire
