// foretoken chat: a conversation in the terminal. Wires the engine, the terminal and Ctrl-C to the
// logic of chat_session.h.
#include "apps/chat_session.h"
#include "apps/chat_settings.h"
#include "apps/commands.h"
#include "apps/line_source.h"
#include "apps/message.h"
#include "apps/options.h"
#include "apps/outcome.h"
#include "apps/progress.h"
#include "apps/reply_view.h"
#include "apps/result_writer.h"
#include "apps/terminal_text.h"
#include "base/error.h"
#include "io/file.h"

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <utility>
#include <variant>

#include <CLI/CLI.hpp>
#include <fmt/format.h>

namespace ft::apps {
namespace {

constexpr int kRefusedStatus = 2;

struct ChatArguments {
  ModelOptions model;
  ChatOptions chat;
  std::string system;
  bool quiet = false;
  bool verbose = false;
};

/// Sends Ctrl-C where it belongs: to the running reply, or else to whoever waits for a line.
class ChatInterrupts {
 public:
  explicit ChatInterrupts(InterruptWatcher& watcher)
      : wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), scope_(watcher, [this, &watcher] {
          watcher.rearm();
          on_interrupt();
        }) {
    if (!wake_.is_open()) throw IoError("cannot make an event to be woken by");
  }

  /// Readable after an interrupt, until it is cleared.
  int wake_fd() const noexcept { return wake_.get(); }
  void clear() const {
    std::uint64_t count = 0;
    static_cast<void>(::read(wake_.get(), &count, sizeof count));
  }
  /// While the scope lives, an interrupt cancels the stream.
  class Reply {
   public:
    Reply(ChatInterrupts& interrupts, foretoken::TokenStream& stream) : interrupts_(interrupts) {
      interrupts_.set_stream(&stream);
    }
    ~Reply() { interrupts_.set_stream(nullptr); }
    Reply(const Reply&) = delete;
    Reply& operator=(const Reply&) = delete;
    Reply(Reply&&) = delete;
    Reply& operator=(Reply&&) = delete;

   private:
    ChatInterrupts& interrupts_;
  };

 private:
  void set_stream(foretoken::TokenStream* stream) {
    const std::lock_guard lock(mutex_);
    stream_ = stream;
  }
  void on_interrupt() {
    const std::lock_guard lock(mutex_);
    if (stream_ != nullptr) {
      stream_->cancel();
      return;
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t n = ::write(wake_.get(), &one, sizeof one);
  }

  io::UniqueFd wake_;
  std::mutex mutex_;
  foretoken::TokenStream* stream_ = nullptr;
  InterruptScope scope_;  // last: its handler uses the others
};

struct Screen {
  bool is_interactive = false;      // a person types and reads
  bool writes_to_terminal = false;  // standard output is one
  bool has_colours = false;
};

Screen look_at_terminal() {
  Screen out;
  out.writes_to_terminal = ::isatty(STDOUT_FILENO) == 1;
  out.is_interactive = out.writes_to_terminal && ::isatty(STDIN_FILENO) == 1;
  const char* no_colour = std::getenv("NO_COLOR");
  const char* terminal = std::getenv("TERM");
  out.has_colours = out.is_interactive && (no_colour == nullptr || *no_colour == '\0') &&
                    terminal != nullptr && std::string_view(terminal) != "dumb";
  return out;
}

/// Generates a reply and shows it as it comes.
class Replier {
 public:
  Replier(foretoken::Engine& engine,
          std::vector<foretoken::Token> prediction,
          Screen screen,
          const ChatArguments& arguments,
          ChatInterrupts& interrupts)
      : engine_(engine),
        prediction_(std::move(prediction)),
        screen_(screen),
        arguments_(arguments),
        interrupts_(interrupts) {}

  ChatReply operator()(const Conversation& conversation, const ChatOptions& options) {
    foretoken::GenerationRequest request = chat_request(options);
    const foretoken::ChatPrompt prompt =
        engine_.tokenizer().encode_chat(conversation.request_json(options.is_thinking()));
    request.prompt = prompt.ids;
    request.prediction = prediction_;
    foretoken::TokenStream stream = engine_.submit(std::move(request));
    const ChatInterrupts::Reply scope(interrupts_, stream);

    Shown shown{engine_.tokenizer().reply_parser(prompt.ids, {}),
                ReplyView({.is_terminal = screen_.writes_to_terminal,
                           .has_colours = screen_.has_colours,
                           .shows_thoughts = screen_.is_interactive,
                           .shows_drafts = options.show_drafts}),
                {}};
    const Outcome outcome = follow(stream, shown);
    tell_end(outcome.completion, options);
    ChatReply reply = std::move(shown.reply);
    reply.statistics = statistics_text(outcome, engine_.model(), true);
    return reply;
  }

  bool is_output_closed() const noexcept { return result_.is_closed(); }

 private:
  struct Shown {
    foretoken::ReplyParser parser;
    ReplyView view;
    ChatReply reply;
  };

  Outcome follow(foretoken::TokenStream& stream, Shown& shown) {
    ProgressBar bar("prompt", screen_.is_interactive && !arguments_.quiet);
    Outcome outcome;
    try {
      outcome = collect(stream, [&](const foretoken::Event& event) {
        if (const auto* progress = std::get_if<foretoken::PrefillProgress>(&event)) {
          bar.update(progress->n_done, progress->n_prompt);
        } else if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&event)) {
          bar.clear();
          show(*tokens, shown);
          if (result_.is_closed()) stream.cancel();
        }
      });
    } catch (...) {
      // No colour and no half line stays behind.
      if (shown.view.has_begun()) result_.write(shown.view.end());
      throw;
    }
    result_.write(take(shown.parser.finish(), false, shown));
    result_.write(shown.view.end());
    return outcome;
  }

  // One token at a time: each has its colour.
  void show(const foretoken::CommittedTokens& tokens, Shown& shown) {
    const std::string_view text = tokens.text;
    std::string out;
    std::size_t start = 0;
    for (std::size_t i = 0; i < tokens.ids.size(); ++i) {
      const std::size_t end = tokens.text_ends[i];
      out += take(shown.parser.push({.ids = {tokens.ids[i]},
                                     .text = std::string(text.substr(start, end - start)),
                                     .logprobs = {}}),
                  i < tokens.n_accepted,
                  shown);
      start = end;
    }
    out += take(
        shown.parser.push({.ids = {}, .text = std::string(text.substr(start)), .logprobs = {}}),
        false,
        shown);
    result_.write(out);
  }

  static std::string take(const std::vector<foretoken::ReplyDelta>& deltas,
                          bool was_drafted,
                          Shown& shown) {
    std::string out;
    for (const foretoken::ReplyDelta& delta : deltas) {
      const bool is_thought = delta.kind == foretoken::ReplyDelta::Kind::kReasoning;
      (is_thought ? shown.reply.reasoning : shown.reply.content) += delta.text;
      out += shown.view.push(delta, was_drafted);
    }
    return out;
  }

  void tell_end(const foretoken::Completion& completion, const ChatOptions& options) const {
    if (arguments_.quiet) return;
    switch (completion.finish_reason) {
      case foretoken::FinishReason::kStop:
        return;
      case foretoken::FinishReason::kLength:
        if (completion.usage.completion_tokens == options.generation.max_tokens) {
          print_message("[cut after {} tokens; /set max_tokens N allows more]\n",
                        options.generation.max_tokens);
        } else {
          print_message(
              "[cut: the context of {} tokens is full; /clear begins anew, --context plans more]\n",
              engine_.model().context);
        }
        return;
      case foretoken::FinishReason::kCancelled:
        print_message("[stopped]\n");
        return;
      case foretoken::FinishReason::kTimeout:
        return;  // no request here has a time limit
    }
  }

  foretoken::Engine& engine_;
  std::vector<foretoken::Token> prediction_;
  Screen screen_;
  const ChatArguments& arguments_;
  ChatInterrupts& interrupts_;
  ResultWriter result_;
};

foretoken::Engine open_engine(const ChatArguments& arguments) {
  foretoken::EngineOptions wanted = engine_options(arguments.model);
  if (arguments.chat.speculation.speculate == std::vector<std::string>{"none"}) {
    wanted.draft_format = "stored";  // nothing is drafted
    wanted.plans_drafts = false;
    wanted.draft_model.clear();
  }
  wanted.max_prediction = most_predicted(arguments.chat.speculation.prediction_file);
  wanted.reuses_prefixes = true;
  ProgressBar bar("loading", !arguments.quiet);
  wanted.load_progress = [&bar](std::uint64_t done, std::uint64_t total) {
    bar.update(done, total);
  };
  return foretoken::Engine::open(wanted);
}

// A line, or what its last one completes. Returns nullopt at the end; an interrupt gives no input.
struct NextInput {
  LineRead::Kind kind = LineRead::Kind::kEnd;
  std::optional<ChatInput> input;
};
NextInput next_input(LineSource& lines, InputAssembler& assembler) {
  const LineRead line = lines.read(assembler.is_open() ? "... " : "> ");
  switch (line.kind) {
    case LineRead::Kind::kLine: {
      std::optional<ChatInput> input = assembler.push(line.text);
      if (input && !input->text.empty()) lines.remember(input->text);
      return {line.kind, std::move(input)};
    }
    case LineRead::Kind::kEnd:
      return {line.kind, assembler.end()};
    case LineRead::Kind::kInterrupted:
      assembler.reset();
      return {line.kind, std::nullopt};
  }
  return {};
}

int talk(ChatSession& session,
         const Replier& replier,
         const Screen& screen,
         const ChatInterrupts& interrupts) {
  const std::unique_ptr<LineSource> lines = screen.is_interactive
                                                ? make_line_editor(interrupts.wake_fd())
                                                : make_plain_lines(interrupts.wake_fd());
  InputAssembler assembler;
  while (true) {
    NextInput next = next_input(*lines, assembler);
    if (next.kind == LineRead::Kind::kInterrupted) {
      interrupts.clear();
      if (!screen.is_interactive) return kInterruptedStatus;
      print_message("Ctrl-D or /quit ends\n");
      continue;
    }
    if (next.input && !session.handle(std::move(*next.input))) break;
    if (next.kind == LineRead::Kind::kEnd || replier.is_output_closed()) break;
  }
  return !screen.is_interactive && session.has_failed() ? kRefusedStatus : 0;
}

int run(const ChatArguments& arguments, Environment& environment) {
  const Screen screen = look_at_terminal();
  foretoken::Engine engine = open_engine(arguments);
  ChatSettings settings(arguments.chat, engine.model());
  std::vector<foretoken::Token> prediction =
      read_prediction(arguments.chat.speculation, engine.tokenizer());

  ChatInterrupts interrupts(environment.interrupts);
  Replier replier(engine, std::move(prediction), screen, arguments, interrupts);
  const auto say = [](std::string_view lines) { print_message("{}", for_terminal(lines)); };
  ChatHands hands;
  hands.reply = [&](const Conversation& conversation, const ChatOptions& options) {
    ChatReply reply = replier(conversation, options);
    if (arguments.verbose) say(reply.statistics);
    return reply;
  };
  hands.say = say;
  hands.complain = [](std::string_view what) {
    print_message("foretoken: {}\n", for_terminal(what));
  };
  ChatSession session(std::move(hands), std::move(settings), arguments.system, engine.model().name);
  if (screen.is_interactive && !arguments.quiet) {
    say(fmt::format("{}, {} tokens of context; /help lists the commands, Ctrl-D ends\n",
                    engine.model().name,
                    engine.model().context));
  }
  return talk(session, replier, screen, interrupts);
}

}  // namespace

void add_chat(CLI::App& app, Command& chosen) {
  CLI::App* command = app.add_subcommand("chat", "A conversation in the terminal");
  auto arguments = std::make_shared<ChatArguments>();
  add_chat_options(*command, arguments->chat);
  command->add_option("--system", arguments->system, "System message")
      ->type_name("TEXT")
      ->group("Chat");
  add_engine_options(*command, arguments->model);
  command->add_flag("--quiet", arguments->quiet, "No progress, no remarks")->group("Output");
  command->add_flag("--verbose", arguments->verbose, "Statistics after each reply")
      ->group("Output");
  command->callback([arguments, &chosen] {
    chosen = [arguments](Environment& environment) { return run(*arguments, environment); };
  });
}

}  // namespace ft::apps
