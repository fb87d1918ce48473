// The web page's files, embedded in the program, and how a browser gets them. The page itself is
// src/server/page; it talks to the API as any other client.
#pragma once

#include "server/http_types.h"

#include <optional>
#include <span>
#include <string_view>

namespace ft::server {

struct PageFile {
  std::string_view name;  // "main.js"
  std::string_view etag;  // quoted, of its bytes
  std::string_view bytes;
};

/// All files; those of src/server/page as they were when the program was built.
std::span<const PageFile> page_files() noexcept;

/// Whether "/" or "/page/NAME" names a file of the page.
bool is_page_path(std::string_view path) noexcept;

/// The file, or 304 if the browser has it already. `head.path` must be one of the page's.
Response page_response(const RequestHead& head);

}  // namespace ft::server
