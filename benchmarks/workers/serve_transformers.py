"""Worker: transformers, ONNX Runtime or OpenVINO answers pairs of texts.

Windows and spans of SQuAD are made as in the example scripts of transformers.
"""

import os

import torch
import transformers

from benchmarks import worker
from benchmarks.workers import squad_torch

LENGTH, OVERLAP = 384, 128  # of windows, in tokens


def pipeline(folder: str, dtype: torch.dtype):
  pipe = transformers.pipeline(
    "text-classification", folder, dtype=dtype, device="cpu"
  )
  names = pipe.model.config.id2label
  numbers = {name: str(number) for number, name in names.items()}
  options = {"truncation": True, "max_length": 128}

  def answer(pairs):
    texts = [{"text": first, "text_pair": second} for first, second in pairs]
    results = pipe(texts, batch_size=len(texts), **options)
    return [numbers[result["label"]] for result in results]

  return answer


def classifier(tokenizer, run):
  options = {"truncation": True, "max_length": 128, "padding": True}

  def answer(pairs):
    texts = map(list, zip(*pairs, strict=True))
    [logits] = run(tokenizer(*texts, **options, return_tensors="pt"))
    return [str(label) for label in logits.argmax(-1)]

  return answer


def reader(tokenizer, run):
  def answer(pairs):
    windows = squad_torch.windows(tokenizer, pairs, LENGTH, OVERLAP)
    inputs = [window.inputs for window in windows]
    logits = run(tokenizer.pad(inputs, return_tensors="pt"))
    return squad_torch.answers(windows, list(zip(*logits, strict=True)), pairs)

  return answer


def torch_function(model, engine: str):
  run = torch.compile(model, dynamic=True) if "compile" in engine else model

  @torch.inference_mode()
  def call(inputs):
    return [value.float().numpy() for value in run(**inputs).to_tuple()]

  return call


def onnx_function(model, folder: str, dtype: str):
  """Makes a function that asks ONNX Runtime; exports the model if needed."""
  import onnxruntime  # noqa: PLC0415, not where other engines run
  from onnxruntime import quantization  # noqa: PLC0415

  names, path = squad_torch.INPUTS, f"{folder}/{dtype}.onnx"
  if dtype == "int8" and not os.path.exists(path):
    onnx_function(model, folder, "float32")
    quantization.quantize_dynamic(f"{folder}/float32.onnx", path)
  elif not os.path.exists(path):
    model.config.return_dict = False
    values = torch.ones([2, 8], dtype=torch.int64)
    torch.onnx.export(
      model,
      (),
      path,
      kwargs=dict.fromkeys(names, values) | {"attention_mask": values.tril()},
      # Names in the order of the model's arguments.
      input_names=["input_ids", "attention_mask", "token_type_ids"],
      dynamic_axes={name: {0: "rows", 1: "tokens"} for name in names},
      dynamo=False,
    )
  options = onnxruntime.SessionOptions()
  options.intra_op_num_threads = torch.get_num_threads()
  run = onnxruntime.InferenceSession(path, options).run
  return lambda inputs: run(None, {k: inputs[k].numpy() for k in names})


def openvino_function(model, folder: str, dtype: str):
  """Makes a function that asks OpenVINO, from the file for ONNX Runtime."""
  path = f"{folder}/float32.onnx"
  if not os.path.exists(path):
    onnx_function(model, folder, "float32")
  import openvino  # noqa: PLC0415, not where other engines run

  options = {"INFERENCE_PRECISION_HINT": "f32"} if dtype == "float32" else {}
  options["INFERENCE_NUM_THREADS"] = torch.get_num_threads()
  run = openvino.compile_model(path, "CPU", options)
  names = squad_torch.INPUTS
  return lambda inputs: [*run({k: inputs[k].numpy() for k in names}).values()]


def prepare(folder: str, engine: str, dtype: str) -> worker.Answer:
  config = transformers.AutoConfig.from_pretrained(folder)
  is_squad = "QuestionAnswering" in config.architectures[0]
  torch_dtype = torch.bfloat16 if dtype == "bfloat16" else torch.float32
  if engine == "transformers" and not is_squad:
    return worker.answer_pairs(pipeline(folder, torch_dtype))
  task = "QuestionAnswering" if is_squad else "SequenceClassification"
  load = getattr(transformers, f"AutoModelFor{task}").from_pretrained
  model = load(folder, dtype=torch_dtype).eval()
  if engine == "ONNX Runtime":
    run = onnx_function(model, folder, dtype)
  elif engine == "OpenVINO":
    run = openvino_function(model, folder, dtype)
  else:
    run = torch_function(model, engine)
  tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
  make = reader if is_squad else classifier
  return worker.answer_pairs(make(tokenizer, run))
