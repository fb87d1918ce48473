// A non-owning reference to a callable; the callable must outlive the call it is passed to.
#pragma once

#include <memory>
#include <type_traits>
#include <utility>

namespace ft {

namespace detail {
template <typename F, typename Ref, typename Result, typename... Args>
concept CallableAs =
    !std::is_same_v<std::remove_cvref_t<F>, Ref> && std::is_invocable_r_v<Result, F&, Args...>;
}  // namespace detail

template <typename Signature>
class FunctionRef;

template <typename Result, typename... Args>
class FunctionRef<Result(Args...)> {
 public:
  // A parameter type like string_view, hence implicit; the concept keeps it off copies.
  template <detail::CallableAs<FunctionRef, Result, Args...> F>
  // NOLINTNEXTLINE(google-explicit-constructor,bugprone-forwarding-reference-overload)
  FunctionRef(F&& callable) noexcept
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(callable)))),
        call_([](void* object, Args... args) -> Result {
          return (*static_cast<std::remove_reference_t<F>*>(object))(std::forward<Args>(args)...);
        }) {}

  Result operator()(Args... args) const { return call_(object_, std::forward<Args>(args)...); }

 private:
  void* object_;
  Result (*call_)(void*, Args...);
};

}  // namespace ft
