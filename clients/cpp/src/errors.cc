#include "turnwire/errors.h"

#include <utility>

#include "turnwire/details.pb.h"

namespace turnwire {
namespace {

std::string words(const grpc::Status& status, const std::string& reason) {
  std::string said = code_name(status.error_code());
  if (!reason.empty()) said += " (" + reason + ")";
  return said + ": " + status.error_message();
}

std::string lost_words(const std::string& run_id, const v1::Cursor& cursor, const std::string& why) {
  const std::string told = why.empty() ? "" : " (" + why + ")";
  if (run_id.empty()) return "no stream was begun: the server could not be reached" + told;
  return "run " + run_id + ": cut after event " + std::to_string(cursor.sequence()) + " and not resumed" + told;
}

}  // namespace

struct Error::Details {
  details::ErrorInfo info;
  std::optional<std::chrono::nanoseconds> retry_delay;

  explicit Details(const std::string& serialized) {
    details::Status status;
    if (!status.ParseFromString(serialized)) return;  // not of a Turnwire server
    for (const google::protobuf::Any& detail : status.details()) {
      const std::string& url = detail.type_url();
      const std::string name = url.substr(url.rfind('/') + 1);
      details::RetryInfo retry;
      if (name == "google.rpc.ErrorInfo") {
        info.ParseFromString(detail.value());
      } else if (name == "google.rpc.RetryInfo" && retry.ParseFromString(detail.value())) {
        retry_delay =
            std::chrono::seconds(retry.retry_delay().seconds()) + std::chrono::nanoseconds(retry.retry_delay().nanos());
      }
    }
  }
};

Error::Error(const grpc::Status& status) : Error(status, Details(status.error_details())) {}

Error::Error(const grpc::Status& status, Details details)
    : std::runtime_error(words(status, details.info.reason())),
      status_(status),
      reason_(details.info.reason()),
      domain_(details.info.domain()),
      metadata_(details.info.metadata().begin(), details.info.metadata().end()),
      retry_delay_(details.retry_delay) {}

StreamLost::StreamLost(std::string run_id, v1::Cursor cursor, const std::string& why)
    : std::runtime_error(lost_words(run_id, cursor, why)), run_id_(std::move(run_id)), cursor_(std::move(cursor)) {}

void throw_status(const grpc::Status& status) {
  if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED) throw DeadlineExceeded();
  throw Error(status);
}

const char* code_name(grpc::StatusCode code) {
  switch (code) {
    case grpc::StatusCode::OK:
      return "OK";
    case grpc::StatusCode::CANCELLED:
      return "CANCELLED";
    case grpc::StatusCode::INVALID_ARGUMENT:
      return "INVALID_ARGUMENT";
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return "DEADLINE_EXCEEDED";
    case grpc::StatusCode::NOT_FOUND:
      return "NOT_FOUND";
    case grpc::StatusCode::ALREADY_EXISTS:
      return "ALREADY_EXISTS";
    case grpc::StatusCode::PERMISSION_DENIED:
      return "PERMISSION_DENIED";
    case grpc::StatusCode::UNAUTHENTICATED:
      return "UNAUTHENTICATED";
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
      return "RESOURCE_EXHAUSTED";
    case grpc::StatusCode::FAILED_PRECONDITION:
      return "FAILED_PRECONDITION";
    case grpc::StatusCode::ABORTED:
      return "ABORTED";
    case grpc::StatusCode::OUT_OF_RANGE:
      return "OUT_OF_RANGE";
    case grpc::StatusCode::UNIMPLEMENTED:
      return "UNIMPLEMENTED";
    case grpc::StatusCode::INTERNAL:
      return "INTERNAL";
    case grpc::StatusCode::UNAVAILABLE:
      return "UNAVAILABLE";
    case grpc::StatusCode::DATA_LOSS:
      return "DATA_LOSS";
    case grpc::StatusCode::UNKNOWN:
    case grpc::StatusCode::DO_NOT_USE:
      break;
  }
  return "UNKNOWN";
}

}  // namespace turnwire
