#include "server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>
#include <gtest/gtest.h>

#include <chrono>
#include <condition_variable>
#include <stdexcept>
#include <utility>

namespace testing_server {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::chrono::seconds kLongest{10};
constexpr std::chrono::milliseconds kBetweenLooks{2};
constexpr int kMessageBytes = 64 << 20;

template <class Response>
Response response_of(const turnwire::Frame& frame) {
  Response response;
  for (const v1::RunEvent& event : frame.events) *response.add_events() = event;
  response.set_epoch(frame.epoch);
  response.set_through_sequence(frame.through_sequence);
  if (frame.rewind_to) response.set_rewind_to_sequence(*frame.rewind_to);
  return response;
}

}  // namespace

void until(const std::function<bool()>& holds) {
  std::mutex mutex;
  std::condition_variable never;
  std::unique_lock lock(mutex);
  const auto latest = Clock::now() + kLongest;
  while (!never.wait_for(lock, kBetweenLooks, holds)) {
    if (Clock::now() < latest) continue;
    ADD_FAILURE() << "it never came to hold";  // gRPC makes a status of what a method throws
    throw std::runtime_error("it never came to hold");
  }
}

grpc::Status Stream::hang() const {
  until([this] { return context.IsCancelled(); });
  return grpc::Status::CANCELLED;
}

class Server::Turns final : public v1::TurnService::Service {
 public:
  explicit Turns(Server& server) : server_(server) {}

  grpc::Status RunTurn(grpc::ServerContext* context, const v1::RunTurnRequest* asked,
                       grpc::ServerWriter<v1::RunTurnResponse>* writer) override {
    server_.keep(server_.turns_, *asked);
    return server_.stream(
        *context, [writer](const auto& frame) { return writer->Write(response_of<v1::RunTurnResponse>(frame)); });
  }
  grpc::Status WatchRun(grpc::ServerContext* context, const v1::WatchRunRequest* asked,
                        grpc::ServerWriter<v1::WatchRunResponse>* writer) override {
    server_.keep(server_.watches_, *asked);
    return server_.stream(
        *context, [writer](const auto& frame) { return writer->Write(response_of<v1::WatchRunResponse>(frame)); });
  }
  grpc::Status StartTurn(grpc::ServerContext* context, const v1::StartTurnRequest* asked,
                         v1::StartTurnResponse* answer) override {
    server_.keep(server_.starts_, *asked);
    answer->set_run_id("run_1");
    return server_.unary(*context);
  }
  // The run's id has the bytes of the one that was asked for.
  grpc::Status GetRun(grpc::ServerContext* context, const v1::GetRunRequest* asked,
                      v1::GetRunResponse* answer) override {
    answer->mutable_run()->set_run_id(asked->run_id());
    return server_.unary(*context);
  }
  grpc::Status SubmitToolResults(grpc::ServerContext* context, const v1::SubmitToolResultsRequest* asked,
                                 v1::SubmitToolResultsResponse*) override {
    for (const v1::ToolResult& result : asked->results()) server_.keep(server_.results_, result);
    return server_.unary(*context);
  }
  grpc::Status ResolveApproval(grpc::ServerContext* context, const v1::ResolveApprovalRequest* asked,
                               v1::ResolveApprovalResponse*) override {
    server_.keep(server_.decisions_, *asked);
    return server_.unary(*context);
  }
  grpc::Status CancelRun(grpc::ServerContext* context, const v1::CancelRunRequest* asked,
                         v1::CancelRunResponse*) override {
    server_.keep(server_.cancels_, *asked);
    return server_.unary(*context);
  }

 private:
  Server& server_;
};

class Server::McpServers final : public v1::McpServerService::Service {
 public:
  explicit McpServers(Server& server) : server_(server) {}

  grpc::Status AddMcpServer(grpc::ServerContext* context, const v1::AddMcpServerRequest*,
                            v1::AddMcpServerResponse*) override {
    return server_.unary(*context);
  }

 private:
  Server& server_;
};

Server::Server() : service_(std::make_unique<Turns>(*this)), mcp_servers_(std::make_unique<McpServers>(*this)) {
  int port = 0;
  grpc::ServerBuilder builder;
  builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port);
  builder.SetMaxReceiveMessageSize(kMessageBytes);
  builder.RegisterService(service_.get());
  builder.RegisterService(mcp_servers_.get());
  server_ = builder.BuildAndStart();
  if (!server_) throw std::runtime_error("no server could be started");
  address_ = "127.0.0.1:" + std::to_string(port);
}

Server::~Server() {
  server_->Shutdown(std::chrono::system_clock::now());
}

turnwire::Client Server::client(const std::string& token) const {
  turnwire::ClientOptions options;
  options.token = token;
  return turnwire::Client(address_, std::move(options));
}

void Server::then(Script script) {
  const std::lock_guard lock(mutex_);
  scripts_.push_back(std::move(script));
}

void Server::then(events::Events of, grpc::Status end) {
  then([of = std::move(of), end = std::move(end)](const Stream& stream) {
    if (!of.empty()) stream.send(of);
    return end;
  });
}

void Server::answer(std::vector<grpc::Status> statuses) {
  const std::lock_guard lock(mutex_);
  statuses_.insert(statuses_.end(), statuses.begin(), statuses.end());
}

void Server::hold() {
  const std::lock_guard lock(mutex_);
  held_ = true;
}

int Server::left() const {
  const std::lock_guard lock(mutex_);
  return left_;
}

void Server::see(const grpc::ServerContext& context) {
  const auto token = context.client_metadata().find("authorization");
  const bool has = token != context.client_metadata().end();
  tokens_.emplace_back(has ? std::string(token->second.data(), token->second.size()) : "");
}

grpc::Status Server::stream(grpc::ServerContext& context, std::function<bool(const turnwire::Frame&)> write) {
  Script script;
  {
    const std::lock_guard lock(mutex_);
    see(context);
    if (scripts_.empty()) return {grpc::StatusCode::FAILED_PRECONDITION, "no script is left"};
    script = std::move(scripts_.front());
    scripts_.pop_front();
  }
  grpc::Status end = script({context, std::move(write)});
  const std::lock_guard lock(mutex_);
  if (context.IsCancelled()) ++left_;
  return end;
}

grpc::Status Server::unary(const grpc::ServerContext& context) {
  {
    const std::lock_guard lock(mutex_);
    see(context);
    if (!held_) {
      if (statuses_.empty()) return grpc::Status::OK;
      grpc::Status status = std::move(statuses_.front());
      statuses_.pop_front();
      return status;
    }
  }
  until([&context] { return context.IsCancelled(); });
  const std::lock_guard lock(mutex_);
  ++left_;
  return grpc::Status::CANCELLED;
}

}  // namespace testing_server
