//! Protobuf encoding that streams large tensors instead of buffering them.
//!
//! Models are encoded field by field in the order of the field numbers, so the bytes are the same
//! as if the model were encoded at once. The buffer holds little more than one chunk and one
//! message, such as a node or a function.

use std::io::{self, Write};

use prost::Message;
use prost::bytes::Bytes;
use prost::encoding::{self, WireType};

use crate::proto::{GraphProto, ModelProto, TensorProto};
use crate::tensor_proto::RAW_DATA;

/// The number of bytes that are buffered before they are written.
const CHUNK: usize = 1 << 20;

/// Writes `model` to `out`.
pub(crate) fn write_model(model: &ModelProto, out: impl Write) -> io::Result<()> {
    let mut stream = Stream { out, buffer: Vec::with_capacity(CHUNK + (CHUNK >> 2)) };
    stream.model(model)?;
    stream.flush()
}

struct Stream<W> {
    out: W,
    buffer: Vec<u8>,
}

impl<W: Write> Stream<W> {
    fn model(&mut self, model: &ModelProto) -> io::Result<()> {
        let ModelProto {
            ir_version,
            producer_name,
            producer_version,
            domain,
            model_version,
            doc_string,
            graph,
            opset_import,
            metadata_props,
            training_info,
            functions,
            configuration,
        } = model;
        self.int64(1, *ir_version);
        self.string(2, producer_name);
        self.string(3, producer_version);
        self.string(4, domain);
        self.int64(5, *model_version);
        self.string(6, doc_string);
        if let Some(graph) = graph {
            self.header(7, graph.encoded_len());
            self.graph(graph)?;
        }
        self.messages(8, opset_import)?;
        self.messages(14, metadata_props)?;
        self.messages(20, training_info)?;
        self.messages(25, functions)?;
        self.encoded(26, configuration)
    }

    fn graph(&mut self, graph: &GraphProto) -> io::Result<()> {
        let GraphProto {
            node,
            name,
            initializer,
            doc_string,
            input,
            output,
            value_info,
            quantization_annotation,
            sparse_initializer,
            metadata_props,
        } = graph;
        self.messages(1, node)?;
        self.string(2, name);
        for tensor in initializer {
            self.header(5, tensor.encoded_len());
            self.tensor(tensor)?;
        }
        self.string(10, doc_string);
        self.messages(11, input)?;
        self.messages(12, output)?;
        self.messages(13, value_info)?;
        self.encoded(14, quantization_annotation)?;
        self.messages(15, sparse_initializer)?;
        self.messages(16, metadata_props)
    }

    fn tensor(&mut self, tensor: &TensorProto) -> io::Result<()> {
        // The computation of deferred contents may fail, which a message cannot report.
        let least = if tensor.deferred.is_some() { 0 } else { CHUNK };
        let Some(contents) = tensor.contents_from(least) else { return self.fields(tensor) };
        tensor.encode_before(&mut self.buffer);
        self.header(RAW_DATA, contents.len());
        if contents.len() < CHUNK {
            contents.write(&mut self.buffer)?;
        } else {
            self.flush()?;
            contents.write(&mut self.out)?;
        }
        tensor.encode_after(&mut self.buffer);
        self.flush_if_full()
    }

    fn int64(&mut self, tag: u32, value: i64) {
        if value != 0 {
            encoding::int64::encode(tag, &value, &mut self.buffer);
        }
    }

    fn string(&mut self, tag: u32, value: &String) {
        if !value.is_empty() {
            encoding::string::encode(tag, value, &mut self.buffer);
        }
    }

    fn messages<M: Message>(&mut self, tag: u32, messages: &[M]) -> io::Result<()> {
        for message in messages {
            self.header(tag, message.encoded_len());
            self.fields(message)?;
        }
        Ok(())
    }

    /// Writes messages that were never decoded.
    fn encoded(&mut self, tag: u32, messages: &[Bytes]) -> io::Result<()> {
        for message in messages {
            self.header(tag, message.len());
            self.buffer.extend_from_slice(message);
            self.flush_if_full()?;
        }
        Ok(())
    }

    /// Writes the tag and the length that precede `len` bytes of content.
    fn header(&mut self, tag: u32, len: usize) {
        encoding::encode_key(tag, WireType::LengthDelimited, &mut self.buffer);
        encoding::encode_varint(len as u64, &mut self.buffer);
    }

    fn fields(&mut self, message: &impl Message) -> io::Result<()> {
        message.encode_raw(&mut self.buffer);
        self.flush_if_full()
    }

    fn flush_if_full(&mut self) -> io::Result<()> {
        if self.buffer.len() >= CHUNK { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }
}
