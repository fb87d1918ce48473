// Members that requests of every API have in common: how a reply is sampled, drafted and ended.
#pragma once

#include "foretoken/request.h"
#include "json/json.h"
#include "server/request_fields.h"
#include "server/text_request.h"

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace ft::server {

/// Of the APIs that leave it open: beyond it replies are noise.
inline constexpr double kMaxTemperature = 100;

// All of these throw ApiError naming the parameter.

/// A request's JSON.
json::Value parse_body(std::string_view body, const RequestLimits& limits);

/// A number of tokens to generate at most.
std::optional<std::size_t> token_limit(RequestFields& fields,
                                       std::string_view name,
                                       std::uint64_t least);

/// temperature, top_p, top_k, min_p and seed.
void read_sampling(RequestFields& fields, double max_temperature, foretoken::SamplingOptions& out);

/// presence_penalty, frequency_penalty, repetition_penalty (or repeat_penalty) and logit_bias.
void read_penalties(RequestFields& fields,
                    const RequestLimits& limits,
                    foretoken::SamplingOptions& out);

/// An array of stop strings; absent: none.
std::vector<std::string> stop_list(RequestFields& fields,
                                   std::string_view name,
                                   const RequestLimits& limits);
/// `stop`: a stop string or an array of them; absent: none.
std::vector<std::string> stop_or_list(RequestFields& fields, const RequestLimits& limits);

/// `timeout`: seconds, from now on.
std::optional<std::chrono::milliseconds> time_limit(RequestFields& fields);

/// speculate, draft_tokens and accept. Which sources there are is the engine's to know.
void read_speculation(RequestFields& fields, foretoken::GenerationRequest& out);

}  // namespace ft::server
