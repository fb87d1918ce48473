#!/usr/bin/env python3
"""Writes a random model with GLM-5.2's tensor shapes as GGUF, for llama.cpp: glm_gguf.py OUT.gguf [--dense 1] [--sparse 2] [--type q4_0|q8_0].

Needs python3-gguf. Experts, dense networks and projections have the given type, what llama.cpp's own converter keeps wider
is wider. Numbers are random, so only speed can be measured.
"""
import argparse

import gguf
import numpy as np

D, VOCAB, HEADS, Q_RANK, LATENT, NOPE, ROPE, VALUE = 6144, 154880, 64, 2048, 512, 192, 64, 256
EXPERTS, ACTIVE, WIDTH, DENSE_WIDTH, INDEX_HEADS, INDEX_DIM = 256, 8, 2048, 12288, 32, 128


def tensors(n_dense, n_sparse, kind):
    """(name, shape as [.., out, in], type)"""
    f32, f16 = 'f32', 'bf16'
    yield 'token_embd.weight', (VOCAB, D), 'q8_0'
    yield 'output_norm.weight', (D,), f32
    yield 'output.weight', (VOCAB, D), 'q8_0'
    for i in range(n_dense + n_sparse):
        b = f'blk.{i}.'
        yield b + 'attn_norm.weight', (D,), f32
        yield b + 'attn_q_a.weight', (Q_RANK, D), 'q8_0'
        yield b + 'attn_q_a_norm.weight', (Q_RANK,), f32
        yield b + 'attn_q_b.weight', (HEADS * (NOPE + ROPE), Q_RANK), 'q8_0'
        yield b + 'attn_kv_a_mqa.weight', (LATENT + ROPE, D), 'q8_0'
        yield b + 'attn_kv_a_norm.weight', (LATENT,), f32
        yield b + 'attn_k_b.weight', (HEADS, LATENT, NOPE), 'q8_0'
        yield b + 'attn_v_b.weight', (HEADS, VALUE, LATENT), 'q8_0'
        yield b + 'attn_output.weight', (D, HEADS * VALUE), 'q8_0'
        yield b + 'indexer.k_norm.weight', (INDEX_DIM,), f32
        yield b + 'indexer.k_norm.bias', (INDEX_DIM,), f32
        yield b + 'indexer.proj.weight', (INDEX_HEADS, D), f16
        yield b + 'indexer.attn_k.weight', (INDEX_DIM, D), f16
        yield b + 'indexer.attn_q_b.weight', (INDEX_HEADS * INDEX_DIM, Q_RANK), f16
        yield b + 'ffn_norm.weight', (D,), f32
        if i < n_dense:
            yield b + 'ffn_gate.weight', (DENSE_WIDTH, D), 'q8_0'
            yield b + 'ffn_up.weight', (DENSE_WIDTH, D), 'q8_0'
            yield b + 'ffn_down.weight', (D, DENSE_WIDTH), 'q8_0'
            continue
        yield b + 'ffn_gate_inp.weight', (EXPERTS, D), f32
        yield b + 'exp_probs_b.bias', (EXPERTS,), f32
        yield b + 'ffn_gate_exps.weight', (EXPERTS, WIDTH, D), kind
        yield b + 'ffn_up_exps.weight', (EXPERTS, WIDTH, D), kind
        yield b + 'ffn_down_exps.weight', (EXPERTS, D, WIDTH), kind
        yield b + 'ffn_gate_shexp.weight', (WIDTH, D), 'q8_0'
        yield b + 'ffn_up_shexp.weight', (WIDTH, D), 'q8_0'
        yield b + 'ffn_down_shexp.weight', (D, WIDTH), 'q8_0'


def values(name, shape, kind, rng):
    """Bytes [.., bytes of a row] with values of standard deviation about 1/sqrt(in)."""
    n_in, n_rows = shape[-1], int(np.prod(shape[:-1], dtype=np.int64))
    sigma = n_in ** -0.5
    if kind == 'f32':
        if len(shape) > 1: return rng.standard_normal(shape, np.float32) * np.float32(sigma)
        return np.zeros(shape, np.float32) if name.endswith('bias') else np.ones(shape, np.float32)
    if kind == 'bf16':
        bits = (rng.standard_normal(shape, np.float32) * np.float32(sigma)).view(np.uint32)
        return (bits >> 16).astype(np.uint16).view(np.uint8)
    block = {'q4_0': 18, 'q8_0': 34}[kind]
    spread = {'q4_0': 4.6, 'q8_0': 74}[kind]  # standard deviation of uniform codes
    n = n_rows * (n_in // 32)
    data = np.empty((n, block), np.uint8)
    data[:, :2] = np.frombuffer(np.float16(sigma / spread).tobytes(), np.uint8)
    pattern = rng.integers(0, 256, (65521, block - 2), np.uint8)  # a prime number of blocks: rows differ
    for at in range(0, n, len(pattern)): data[at:at + len(pattern), 2:] = pattern[:min(len(pattern), n - at)]
    return data.reshape(*shape[:-1], n_in // 32 * block)


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument('out')
    p.add_argument('--dense', type=int, default=1)
    p.add_argument('--sparse', type=int, default=2)
    p.add_argument('--type', default='q4_0', choices=['q4_0', 'q8_0'])
    a = p.parse_args()
    w = gguf.GGUFWriter(a.out, 'glm-dsa')
    w.add_block_count(a.dense + a.sparse)
    w.add_context_length(65536)
    w.add_embedding_length(D)
    w.add_feed_forward_length(DENSE_WIDTH)
    w.add_leading_dense_block_count(a.dense)
    w.add_vocab_size(VOCAB)
    w.add_head_count(HEADS)
    w.add_head_count_kv(1)
    w.add_key_length(LATENT + ROPE)
    w.add_value_length(LATENT)
    w.add_key_length_mla(NOPE + ROPE)
    w.add_value_length_mla(VALUE)
    w.add_q_lora_rank(Q_RANK)
    w.add_kv_lora_rank(LATENT)
    w.add_layer_norm_rms_eps(1e-5)
    w.add_rope_dimension_count(ROPE)
    w.add_rope_freq_base(8e6)
    w.add_indexer_head_count(INDEX_HEADS)
    w.add_indexer_key_length(INDEX_DIM)
    w.add_indexer_top_k(2048)
    w.add_expert_count(EXPERTS)
    w.add_expert_used_count(ACTIVE)
    w.add_expert_group_count(1)
    w.add_expert_group_used_count(1)
    w.add_expert_gating_func(gguf.ExpertGatingFuncType.SIGMOID)
    w.add_expert_feed_forward_length(WIDTH)
    w.add_expert_shared_count(1)
    w.add_expert_weights_scale(2.5)
    w.add_expert_weights_norm(True)
    w.add_tokenizer_model('none')
    listed = list(tensors(a.dense, a.sparse, a.type))
    kinds = {'f32': gguf.GGMLQuantizationType.F32, 'bf16': gguf.GGMLQuantizationType.BF16, 'q4_0': gguf.GGMLQuantizationType.Q4_0,
             'q8_0': gguf.GGMLQuantizationType.Q8_0}
    sizes = {'f32': lambda n: 4 * n, 'bf16': lambda n: 2 * n, 'q4_0': lambda n: n // 32 * 18, 'q8_0': lambda n: n // 32 * 34}
    for name, shape, kind in listed:
        if kind == 'f32':
            w.add_tensor_info(name, shape, np.dtype(np.float32), sizes[kind](int(np.prod(shape))))
        else:
            stored = (*shape[:-1], sizes[kind](shape[-1]))
            w.add_tensor_info(name, stored, np.dtype(np.uint8), sizes[kind](int(np.prod(shape))), raw_dtype=kinds[kind])
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_ti_data_to_file()
    rng = np.random.default_rng(1)
    for name, shape, kind in listed: w.write_tensor_data(values(name, shape, kind, rng))
    w.close()


main()
