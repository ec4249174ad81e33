// Writes the inputs and outputs of a run to a file for `jax2onnx verify --dump`. C++17, no libraries.
//
//   Dump dump("OpenVINO, GPU", "sha256:…");  // the digest of the model file, or nothing
//   dump.add("x", "F32", {2, 8}, x.data(), x.size() * sizeof(float));
//   dump.write("run.safetensors");
//
// Element types are F32, F16, BF16, F64, I64, I32, I16, I8, U64, U32, U16, U8 and BOOL. These are the
// names of `ov::element::Type` in capitals, but `boolean` is BOOL. `Dump::of_onnx` converts those of onnxruntime. The
// data must stay alive until the file is written.
#pragma once
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

class Dump {
 public:
  explicit Dump(const std::string& runtime, const std::string& model = "") {
    header = "{\"__metadata__\":{\"format\":\"jax2onnx.dump\",\"version\":\"1\",\"runtime\":" + quoted(runtime);
    header += (model.empty() ? "" : ",\"model\":" + quoted(model)) + "}";
  }
  template <typename Shape = std::vector<int64_t>>
  void add(const std::string& name, const std::string& type, const Shape& shape, const void* data, size_t bytes) {
    std::string dims;
    for (auto size : shape) dims += (dims.empty() ? "" : ",") + std::to_string(size);
    header += "," + quoted(name) + ":{\"dtype\":" + quoted(type) + ",\"shape\":[" + dims + "],\"data_offsets\":[";
    header += std::to_string(end) + "," + std::to_string(end + bytes) + "]}";
    end += bytes;
    parts.emplace_back(static_cast<const char*>(data), bytes);
  }
  bool write(const std::string& path) const {
    std::string text = header + "}";
    text.append((8 - text.size() % 8) % 8, ' ');
    std::ofstream file(path, std::ios::binary);
    for (int i = 0; i < 8; i++) file.put(static_cast<char>(static_cast<uint64_t>(text.size()) >> (8 * i)));
    file << text;
    for (const auto& [data, bytes] : parts) file.write(data, static_cast<std::streamsize>(bytes));
    return static_cast<bool>(file.flush());
  }
  static std::string of_onnx(int code) {
    static const char* const names[] = {"", "F32", "U8", "I8", "U16", "I16", "I32", "I64", "", "BOOL", "F16", "F64", "U32", "U64", "", "", "BF16"};
    return code > 0 && code < 17 ? names[code] : "";
  }

 private:
  static std::string quoted(const std::string& text) {
    std::string out = "\"";
    char escape[8];
    for (unsigned char c : text) {
      std::snprintf(escape, sizeof escape, "\\u%04x", c);
      out += c < 0x20 || c == '"' || c == '\\' ? std::string(escape) : std::string(1, static_cast<char>(c));
    }
    return out + "\"";
  }
  std::string header;
  uint64_t end = 0;
  std::vector<std::pair<const char*, size_t>> parts;
};
