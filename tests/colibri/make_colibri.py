#!/usr/bin/env python3
"""make_colibri.py SOURCE DESTINATION [--group 64] [--main-bits 4]

Writes a Hugging Face checkpoint (bf16, f16, f32, fp8 with block scales) in colibri's layout: every matrix as U8 bytes with f32
scales in NAME.qs; 4 bits by rows or groups, 8 bits for the next-token layer, embedding, head and indexer; the rest f32.
"""
import argparse
import json
import pathlib
import shutil
import struct

import numpy as np

DTYPES = {'F32': np.float32, 'F16': np.float16, 'BF16': np.uint16, 'F8_E4M3': np.uint8}


def fp8_table():
    codes = np.arange(256)
    sign = np.where(codes & 0x80, -1.0, 1.0)
    exponent, mantissa = (codes >> 3) & 15, codes & 7
    return np.where(exponent == 0, sign * mantissa * 2.0**-9, sign * (8 + mantissa) * 2.0**(exponent - 10.0))


def read(folder):
    tensors = {}
    for path in sorted(folder.glob('*.safetensors')):
        data = path.read_bytes()
        length = struct.unpack('<Q', data[:8])[0]
        for name, entry in json.loads(data[8:8 + length]).items():
            if name == '__metadata__':
                continue
            begin, end = entry['data_offsets']
            raw = np.frombuffer(data[8 + length + begin:8 + length + end], DTYPES[entry['dtype']]).reshape(entry['shape'])
            if entry['dtype'] == 'BF16':
                raw = (raw.astype(np.uint32) << 16).view(np.float32)
            elif entry['dtype'] == 'F8_E4M3':
                raw = fp8_table()[raw]
            tensors[name] = raw.astype(np.float32)
    for name in [n for n in tensors if n.endswith('_scale_inv')]:
        scales = tensors.pop(name)
        weight = tensors[name[:-len('_scale_inv')]]
        rows, cols = weight.shape
        weight *= np.repeat(np.repeat(scales, 128, 0)[:rows], 128, 1)[:, :cols]
    return tensors


def quantize(matrix, bits, group):
    rows, cols = matrix.shape
    n_groups = -(-cols // group)
    padded = np.zeros((rows, n_groups * group), np.float32)
    padded[:, :cols] = matrix
    grouped = padded.reshape(rows, n_groups, group)
    top = 127 if bits == 8 else 7
    scales = np.maximum(np.abs(grouped).max(2), 1e-12).astype(np.float32) / np.float32(top)
    codes = np.rint(grouped / scales[:, :, None]).clip(-top - 1, top).astype(np.int8).reshape(rows, -1)[:, :cols]
    if bits == 8:
        return codes.view(np.uint8), scales
    nibbles = (codes + 8).astype(np.uint8)
    if cols % 2:
        nibbles = np.concatenate([nibbles, np.zeros((rows, 1), np.uint8)], 1)
    return nibbles[:, 0::2] | nibbles[:, 1::2] << 4, scales


def write(path, tensors):
    header, data = {}, []
    at = 0
    for name, tensor in tensors.items():
        raw = np.ascontiguousarray(tensor).tobytes()
        header[name] = {'dtype': 'U8' if tensor.dtype == np.uint8 else 'F32', 'shape': list(tensor.shape),
                        'data_offsets': [at, at + len(raw)]}
        at += len(raw)
        data.append(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack('<Q', len(text)) + text + b''.join(data))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('source', type=pathlib.Path)
    parser.add_argument('destination', type=pathlib.Path)
    parser.add_argument('--group', type=int, default=0, help='columns per scale of 4-bit matrices; 0: one per row')
    parser.add_argument('--main-bits', type=int, default=4)
    args = parser.parse_args()
    args.destination.mkdir(parents=True)
    for name in ['config.json', 'generation_config.json', 'tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja']:
        if (args.source / name).exists():
            shutil.copy(args.source / name, args.destination)
    n_layers = json.loads((args.source / 'config.json').read_text())['num_hidden_layers']
    out, mtp = {}, {}
    for name, tensor in read(args.source).items():
        to = mtp if f'.layers.{n_layers}.' in name else out
        if tensor.ndim != 2 or name.endswith('mlp.gate.weight') or 'weights_proj' in name:
            to[name] = tensor
            continue
        is_wide = to is mtp or '.layers.' not in name or '.indexer.' in name
        bits = 8 if is_wide else args.main_bits
        group = args.group if args.group and bits == 4 else tensor.shape[1]
        to[name], to[name + '.qs'] = quantize(tensor, bits, group)
    write(args.destination / 'out-00000.safetensors', out)
    write(args.destination / 'out-mtp-00000.safetensors', mtp)


if __name__ == '__main__':
    main()
