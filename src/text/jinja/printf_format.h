// Python's two ways to fill a text: the operator % and str.format().
#pragma once

#include "text/jinja/arguments.h"
#include "text/jinja/marked_text.h"
#include "text/jinja/runtime.h"

namespace ft::text::jinja {

/// `format % values`: %s %r %d %i %u %o %x %X %e %E %f %F %g %G %c %%, with flags, width, precision
/// and %(name)s.
Value printf_format(Runtime& runtime, const MarkedText& format, const Value& values);

/// `format.format(...)`: {} {0} {name} {0.attribute} {0[key]} {!r}; format specifications (behind
/// ':') are refused.
MarkedText brace_format(Runtime& runtime, const MarkedText& format, const Arguments& arguments);

}  // namespace ft::text::jinja
