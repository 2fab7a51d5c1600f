// What a call of this library may throw:
//
//   std::runtime_error
//     Error               the server, or something on the way to it, refused the call
//     StreamLost          a stream was cut and not taken up again
//     DeadlineExceeded    the time that the caller gave is over
//     Cancelled           the caller's stop_token was asked to stop
//
// A run that failed is none of it: it has an outcome.
#pragma once

#include <grpcpp/support/status.h>

#include <chrono>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>

#include "turnwire/v1/event.pb.h"

namespace turnwire {

// A call that was refused, in the words of the contract: google.rpc.ErrorInfo and RetryInfo of the status.
class Error : public std::runtime_error {
 public:
  explicit Error(const grpc::Status& status);

  [[nodiscard]] grpc::StatusCode code() const { return status_.error_code(); }
  // For people. what() has the code and the reason as well.
  [[nodiscard]] std::string message() const { return status_.error_message(); }
  // A name of the enum Reason without its prefix, such as "AGENT_NOT_FOUND". Empty when the server did not answer.
  [[nodiscard]] const std::string& reason() const { return reason_; }
  // Whose reason it is: "turnwire.v1".
  [[nodiscard]] const std::string& domain() const { return domain_; }
  // What goes with the reason.
  [[nodiscard]] const std::map<std::string, std::string>& metadata() const { return metadata_; }
  // When to try again, if the server says so.
  [[nodiscard]] std::optional<std::chrono::nanoseconds> retry_delay() const { return retry_delay_; }
  // The status as it came.
  [[nodiscard]] const grpc::Status& status() const { return status_; }

 private:
  struct Details;
  Error(const grpc::Status& status, Details details);

  grpc::Status status_;
  std::string reason_;
  std::string domain_;
  std::map<std::string, std::string> metadata_;
  std::optional<std::chrono::nanoseconds> retry_delay_;
};

// The stream was cut and could not be taken up again in the attempts allowed. The run may still go on.
class StreamLost : public std::runtime_error {
 public:
  // `why`: what the last call said, when it ended with an error.
  StreamLost(std::string run_id, v1::Cursor cursor, const std::string& why);

  // Empty when the server never told it.
  [[nodiscard]] const std::string& run_id() const { return run_id_; }
  // A later WatchRun from here goes on where this stream stopped.
  [[nodiscard]] const v1::Cursor& cursor() const { return cursor_; }

 private:
  std::string run_id_;
  v1::Cursor cursor_;
};

class DeadlineExceeded : public std::runtime_error {
 public:
  DeadlineExceeded() : std::runtime_error("the deadline is exceeded") {}
};

class Cancelled : public std::runtime_error {
 public:
  Cancelled() : std::runtime_error("cancelled") {}
};

// Throws what a status other than OK means.
[[noreturn]] void throw_status(const grpc::Status& status);

// The name of a code as the specification of gRPC writes it, such as "NOT_FOUND".
const char* code_name(grpc::StatusCode code);

}  // namespace turnwire
