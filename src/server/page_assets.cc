#include "server/page_assets.h"

#include "base/error.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

namespace ft::server {
namespace {

constexpr std::string_view kFolder = "/page/";

// Nothing comes from elsewhere, nothing is inline, no text becomes markup, nobody frames the page.
constexpr std::string_view kPolicy =
    "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; object-src "
    "'none'; require-trusted-types-for 'script'; trusted-types 'none'";

const PageFile* find_file(std::string_view path) noexcept {
  std::string_view name;
  if (path == "/") {
    name = "index.html";
  } else if (path.starts_with(kFolder)) {
    name = path.substr(kFolder.size());
  }
  const std::span<const PageFile> files = page_files();
  const auto found = std::find_if(
      files.begin(), files.end(), [name](const PageFile& file) { return file.name == name; });
  return found == files.end() ? nullptr : &*found;
}

std::string_view content_type(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {
      {{".html", "text/html; charset=utf-8"},
       {".css", "text/css; charset=utf-8"},
       {".js", "text/javascript; charset=utf-8"},
       {".svg", "image/svg+xml"}}};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

}  // namespace

bool is_page_path(std::string_view path) noexcept {
  return find_file(path) != nullptr;
}

Response page_response(const RequestHead& head) {
  const PageFile* file = find_file(head.path);
  FT_CHECK(file != nullptr);
  Response out;
  out.content_type = content_type(file->name);
  out.headers = {{"ETag", std::string(file->etag)},
                 {"Cache-Control", "no-cache"},
                 {"Content-Security-Policy", std::string(kPolicy)},
                 {"Cross-Origin-Opener-Policy", "same-origin"},
                 {"Cross-Origin-Resource-Policy", "same-origin"},
                 {"Referrer-Policy", "no-referrer"}};
  // A weak or listed tag is no match: the file is sent once more.
  if (head.if_none_match == file->etag) {
    out.status = 304;
  } else {
    out.body = file->bytes;
  }
  return out;
}

}  // namespace ft::server
