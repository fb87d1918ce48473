// GPT-2's byte alphabet: how tokenizer.json writes bytes as printable characters. Used while a
// tokenizer loads.
#pragma once

#include <string>
#include <string_view>

namespace ft::text {

/// Appends the bytes that `letters` (UTF-8) stands for. False, with `bytes` as it was, if a
/// character is none of the 256 letters.
bool append_alphabet_bytes(std::string_view letters, std::string& bytes);

}  // namespace ft::text
