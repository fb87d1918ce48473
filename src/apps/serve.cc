// foretoken serve: the HTTP server on an engine.
#include "apps/commands.h"
#include "apps/message.h"
#include "apps/options.h"
#include "apps/progress.h"
#include "apps/result_writer.h"
#include "apps/sizes.h"
#include "base/clock.h"
#include "base/error.h"
#include "io/file.h"
#include "server/api.h"
#include "server/backend.h"
#include "server/http_server.h"
#include "server/log.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr std::size_t kMaxKeyBytes = 4096;
constexpr const char* kServerGroup = "Server";  // of options

struct ServeOptions {
  ModelOptions model;
  std::string host = "127.0.0.1";
  std::uint16_t port = 8080;
  std::string api_key;
  std::string api_key_file;
  std::vector<std::string> hosts;
  std::vector<std::string> origins;
  std::string model_name;
  std::size_t max_tokens = 0;
  std::size_t sessions = 1;
  std::size_t max_requests = server::HttpOptions().max_requests;
  std::size_t max_connections = server::HttpOptions().max_connections;
  std::string max_body = "16Mi";
  std::size_t stop_after_s = 10;
  std::string log_format = "text";
  std::string log_level = "info";
  bool no_prefix_reuse = false;
  bool quiet = false;
};

std::string api_key(const ServeOptions& options) {
  if (options.api_key_file.empty()) return options.api_key;
  if (!options.api_key.empty()) fail("--api-key and --api-key-file are given, expected one");
  std::string key = io::read_input(options.api_key_file, kMaxKeyBytes);
  while (!key.empty() && (key.back() == '\n' || key.back() == '\r')) key.pop_back();
  if (key.empty()) fail("--api-key-file {} is empty", in_quotes(options.api_key_file));
  return key;
}

bool is_loopback(const std::string& host) {
  return host == "localhost" || host == "::1" || host.starts_with("127.");
}

server::ApiOptions api_options(const ServeOptions& options) {
  server::ApiOptions out;
  out.access.api_key = api_key(options);
  if (out.access.api_key.empty() && !is_loopback(options.host)) {
    fail("--host {} lets other machines in: give --api-key or --api-key-file",
         in_quotes(options.host));
  }
  out.access.allowed_hosts = options.hosts;
  // The key keeps out pages that give this machine a name of theirs.
  if (!is_loopback(options.host) && options.hosts.empty()) out.access.allowed_hosts = {"*"};
  out.access.allowed_origins = options.origins;
  out.model_name = options.model_name;
  if (options.max_tokens > 0) out.max_tokens = options.max_tokens;
  return out;
}

server::HttpOptions http_options(const ServeOptions& options) {
  server::HttpOptions out;
  out.host = options.host;
  out.port = options.port;
  out.max_requests = options.max_requests;
  out.max_connections = options.max_connections;
  out.max_body_bytes = static_cast<std::size_t>(parse_size(options.max_body, "--max-body"));
  out.max_all_body_bytes = std::max(out.max_all_body_bytes, 2 * out.max_body_bytes);
  return out;
}

server::Log open_log(const ServeOptions& options) {
  const auto level = server::log_level(options.log_level);
  if (!level) {
    fail("--log-level is {}, expected error, warning, info or debug", in_quotes(options.log_level));
  }
  if (options.log_format != "text" && options.log_format != "json") {
    fail("--log-format is {}, expected text or json", in_quotes(options.log_format));
  }
  return {options.log_format == "json" ? server::LogFormat::kJson : server::LogFormat::kText,
          *level,
          [quiet = options.quiet](std::string_view line) {
            if (!quiet) print_message("{}", line);
          }};
}

foretoken::Engine open_engine(const ServeOptions& options, const server::Log& log) {
  foretoken::EngineOptions wanted = engine_options(options.model);
  wanted.max_sessions = options.sessions;
  // More never reach the engine.
  wanted.max_queued = options.max_requests * server::RequestLimits().max_choices;
  wanted.warn = [&log](std::string_view line) { log.message(server::LogLevel::kWarning, line); };
  wanted.reuses_prefixes = !options.no_prefix_reuse;
  ProgressBar bar("loading", !options.quiet);
  wanted.load_progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
  };
  return foretoken::Engine::open(wanted);
}

int run(const ServeOptions& options, Environment& environment) {
  const server::ApiOptions api_wishes = api_options(options);
  const server::Log log = open_log(options);
  server::HttpOptions http_wishes = http_options(options);
  foretoken::Engine engine = open_engine(options, log);
  static_cast<void>(engine.tokenizer());  // a model without one cannot be served
  const std::unique_ptr<server::Backend> backend = server::engine_backend(engine);
  server::Api api(*backend, api_wishes, std::make_shared<const SteadyClock>());
  http_wishes.on_request = [&](const server::RequestRecord& record) {
    api.on_request(record);
    log.request(record);
  };
  server::HttpServer http(http_wishes, api);
  api.set_connection_count([&http] { return http.n_connections(); });
  const InterruptScope scope(environment.interrupts, [&] {
    log.message(server::LogLevel::kInfo, "stopping; once more to stop at once");
    http.stop(std::chrono::seconds(options.stop_after_s));
  });
  const bool is_v6 = options.host.find(':') != std::string::npos;
  const std::string url = fmt::format(
      "http://{0}{2}{1}:{3}", is_v6 ? "[" : "", is_v6 ? "]" : "", options.host, http.port());
  ResultWriter().write(url + "\n");
  log.message(server::LogLevel::kInfo,
              fmt::format("serving {} on {}; Ctrl-C stops", in_quotes(engine.model().name), url));
  http.run();
  return 0;
}

void add_log_options(CLI::App& command, ServeOptions& options) {
  constexpr const char* kGroup = "Log";
  command.add_option("--log-format", options.log_format, "Lines on standard error: text or json")
      ->type_name("FORMAT")
      ->group(kGroup)
      ->capture_default_str();
  command
      .add_option("--log-level",
                  options.log_level,
                  "What is told: error, warning (refusals too), info (every request), debug (also "
                  "looks at /health and /metrics)")
      ->type_name("LEVEL")
      ->group(kGroup)
      ->capture_default_str();
  command.add_flag("--quiet", options.quiet, "No log and no messages")->group(kGroup);
}

// Where it listens, and who may ask.
void add_access_options(CLI::App& command, ServeOptions& options) {
  command
      .add_option(
          "--host", options.host, "Address to listen on; others than the loopback need a key")
      ->type_name("ADDRESS")
      ->group(kServerGroup)
      ->capture_default_str();
  command.add_option("--port", options.port, "Port to listen on; 0: any free one")
      ->type_name("N")
      ->group(kServerGroup)
      ->capture_default_str();
  command.add_option("--api-key", options.api_key, "Key that requests must bring")
      ->type_name("KEY")
      ->group(kServerGroup);
  command.add_option("--api-key-file", options.api_key_file, "File with that key")
      ->type_name("FILE")
      ->group(kServerGroup);
  command
      .add_option(
          "--allow-host", options.hosts, "Further name that clients may use for this machine")
      ->type_name("NAME")
      ->group(kServerGroup);
  command
      .add_option(
          "--allow-origin", options.origins, "Web pages that may ask, as https://example.org")
      ->type_name("ORIGIN")
      ->group(kServerGroup);
}

void add_work_options(CLI::App& command, ServeOptions& options) {
  command.add_option("--model-name", options.model_name, "Name of the model in the API [its own]")
      ->type_name("NAME")
      ->group(kServerGroup);
  command
      .add_option("-n,--max-tokens",
                  options.max_tokens,
                  "Tokens of requests that name no limit [chat: what the context holds; else 16]")
      ->type_name("N")
      ->group(kServerGroup)
      ->check(whole_number(1));
  command
      .add_option(
          "--sessions",
          options.sessions,
          "Requests that run together, each with caches of its own; 0: as many as memory is "
          "there for, at most 16")
      ->type_name("N")
      ->group(kServerGroup)
      ->check(whole_number(0))
      ->capture_default_str();
  command
      .add_flag("--no-prefix-reuse",
                options.no_prefix_reuse,
                "Feed all of every prompt, whatever earlier requests began with")
      ->group(kServerGroup);
  command.add_option("--max-requests", options.max_requests, "Requests answered or queued at once")
      ->type_name("N")
      ->group(kServerGroup)
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_option("--max-connections", options.max_connections, "Open connections")
      ->type_name("N")
      ->group(kServerGroup)
      ->check(whole_number(1))
      ->capture_default_str();
  command.add_option("--max-body", options.max_body, "Longest body of a request")
      ->type_name("SIZE")
      ->group(kServerGroup)
      ->capture_default_str();
  command
      .add_option("--stop-after", options.stop_after_s, "Seconds that requests have left at Ctrl-C")
      ->type_name("N")
      ->group(kServerGroup)
      ->capture_default_str();
  add_log_options(command, options);
}

}  // namespace

void add_serve(CLI::App& app, Command& chosen) {
  CLI::App* command =
      app.add_subcommand("serve", "Serve a model over HTTP, as OpenAI's and Anthropic's APIs");
  auto options = std::make_shared<ServeOptions>();
  add_access_options(*command, *options);
  add_work_options(*command, *options);
  add_engine_options(*command, options->model);
  command->callback([options, &chosen] {
    chosen = [options](Environment& environment) { return run(*options, environment); };
  });
}

}  // namespace ft::apps
