// Scratch memory of one forward at a time.
#pragma once

namespace ft::models {

/// Made by the model or draft head that will use it; holds the buffers its results point into. Not
/// thread-safe.
class Workspace {
 public:
  virtual ~Workspace() = default;
};

}  // namespace ft::models
