// Byte sizes as a person writes them.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace ft::apps {

/// "4096", "1.5G", "64Ki": K M G T are powers of 1000, Ki Mi Gi Ti of 1024, a trailing B is
/// allowed. Throws InvalidInput naming the option and the text.
std::uint64_t parse_size(std::string_view text, std::string_view option);

/// "31.8 MB": powers of 1000, three digits.
std::string format_size(std::uint64_t bytes);

}  // namespace ft::apps
