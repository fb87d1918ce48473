// Completes a prompt: example_generate MODEL_FOLDER PROMPT
#include "foretoken/foretoken.h"

#include <exception>
#include <iostream>
#include <variant>

int main(int argc, char** argv) {
  if (argc != 3) {
    std::cerr << "usage: example_generate MODEL_FOLDER PROMPT\n";
    return 2;
  }
  try {
    foretoken::EngineOptions options;
    options.model_path = argv[1];
    foretoken::Engine engine = foretoken::Engine::open(options);

    foretoken::GenerationRequest request;
    request.prompt = engine.tokenizer().encode(argv[2]);
    request.max_tokens = 200;

    foretoken::TokenStream stream = engine.submit(request);
    while (auto event = stream.next()) {
      if (const auto* tokens = std::get_if<foretoken::CommittedTokens>(&*event)) {
        std::cout << tokens->text << std::flush;
      } else if (const auto* done = std::get_if<foretoken::Completion>(&*event)) {
        std::cerr << "\n" << done->speculation.tokens_per_forward << " tokens per forward\n";
      }
    }
    return 0;
  } catch (const std::exception& error) {
    std::cerr << "example_generate: " << error.what() << "\n";
    return 1;
  }
}
