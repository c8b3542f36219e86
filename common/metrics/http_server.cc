#include "common/metrics/http_server.h"

#include <httplib.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/thread.h"

namespace dice {

struct MetricsServer::Impl {
  httplib::Server http;
  std::string host;
  int port = 0;
  std::jthread thread;
};

namespace {

void Answer(httplib::Response& response, bool ok, const std::string& text) {
  response.status = ok ? 200 : 503;
  response.set_content(text, "text/plain");
}

void AddRoutes(const MetricRegistry& registry, const Health& health,
               httplib::Server& http) {
  http.Get("/metrics",
           [&registry](const httplib::Request&, httplib::Response& response) {
             response.set_content(registry.Text(), "text/plain; version=0.0.4");
           });
  http.Get("/healthz",
           [&health](const httplib::Request&, httplib::Response& response) {
             const std::string stale = health.Stale();
             Answer(response, stale.empty(), stale.empty() ? "ok\n" : stale);
           });
  http.Get("/readyz",
           [&health](const httplib::Request&, httplib::Response& response) {
             const bool ready = health.ready();
             Answer(response, ready, ready ? "ready\n" : "not ready\n");
           });
}

}  // namespace

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl)
    : impl_(std::move(impl)) {}

absl::StatusOr<std::unique_ptr<MetricsServer>> MetricsServer::Start(
    const MetricRegistry& registry, const Health& health,
    const std::string& host, int port) {
  auto impl = std::make_unique<Impl>();
  impl->host = host;
  impl->http.new_task_queue = [] { return new httplib::ThreadPool(2); };
  // Its default, SO_REUSEPORT, lets two processes share a port in silence.
  impl->http.set_socket_options([](socket_t socket) {
    const int on = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  });
  // A scraper that stops reading must not hold one of the two threads.
  impl->http.set_read_timeout(5);
  impl->http.set_write_timeout(5);
  impl->http.set_keep_alive_max_count(1);
  AddRoutes(registry, health, impl->http);
  const bool bound = port == 0
                         ? (impl->port = impl->http.bind_to_any_port(host)) > 0
                         : impl->http.bind_to_port(host, port);
  if (!bound) {
    return absl::UnavailableError(
        absl::StrCat("cannot serve metrics on ", host, ":", port));
  }
  if (port != 0) impl->port = port;
  impl->thread = StartThread(
      "metrics-http",
      [http = &impl->http](std::stop_token) { http->listen_after_bind(); });
  return std::unique_ptr<MetricsServer>(new MetricsServer(std::move(impl)));
}

MetricsServer::~MetricsServer() {
  // stop() is lost when listen_after_bind has not begun yet.
  while (!impl_->http.is_running()) std::this_thread::yield();
  impl_->http.stop();
}

int MetricsServer::port() const { return impl_->port; }
std::string MetricsServer::address() const {
  return absl::StrCat(impl_->host, ":", impl_->port);
}

}  // namespace dice
