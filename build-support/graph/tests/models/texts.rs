//! Models of texts, which are interpreted.

use kernpack::{Any, Array, Bytes, Function, ObjRef, Shape, Str, Tensor};
use kernpack_graph::text::{SharedTextModel, TextModel, TextTensor, TextValue, Texts};
use kernpack_graph::{ModelOptions, import};

use super::{Message, node};

/// A value of texts in a model.
fn texts_value(name: &str, dims: &[i64]) -> Message {
    let shape = dims.iter().fold(Message::default(), |shape, dim| shape.message(1, Message::default().int(1, *dim)));
    let tensor = Message::default().int(1, 8).message(2, shape);
    Message::default().text(1, name).message(2, Message::default().message(1, tensor))
}

fn with_text(node: Message, name: &str, value: &str) -> Message {
    node.message(5, Message::default().text(1, name).text(4, value).int(20, 3))
}

fn with_texts(node: Message, name: &str, values: &[&str]) -> Message {
    let attribute = values.iter().fold(Message::default().text(1, name), |message, value| message.text(9, value));
    node.message(5, attribute.int(20, 8))
}

fn with_ints(node: Message, name: &str, values: &[i64]) -> Message {
    let attribute = values.iter().fold(Message::default().text(1, name), |message, value| message.int(8, *value));
    node.message(5, attribute.int(20, 7))
}

fn of_learning(op: &str, inputs: &[&str], outputs: &[&str]) -> Message {
    node(op, inputs, outputs).text(7, "ai.onnx.ml")
}

/// Words in lower case, without some of them, with a mark, and as numbers of a table.
fn words() -> Vec<u8> {
    let normal = with_text(node("StringNormalizer", &["x"], &["normal"]), "case_change_action", "LOWER");
    let normal = with_texts(normal, "stopwords", &["The", "a"]);
    let mark = Message::default().int(1, 1).int(2, 8).text(8, "mark").text(6, "!");
    let table = with_texts(of_learning("LabelEncoder", &["marked"], &["numbers"]), "keys_strings", &["cat!", "dog!"]);
    let table = with_ints(table, "values_int64s", &[7, 8]);
    let pattern = with_text(node("RegexFullMatch", &["marked"], &["matches"]), "pattern", r"[a-d].*!");
    let graph = Message::default()
        .message(1, normal)
        .message(1, node("StringConcat", &["normal", "mark"], &["marked"]))
        .message(1, table)
        .message(1, pattern)
        .message(5, mark)
        .message(11, texts_value("x", &[4]))
        .message(12, texts_value("marked", &[]))
        .message(12, texts_value("numbers", &[]))
        .message(12, texts_value("matches", &[]));
    let opset = |domain: &str, version| Message::default().text(1, domain).int(2, version);
    Message::default().int(1, 8).message(7, graph).message(8, opset("", 20)).message(8, opset("ai.onnx.ml", 4)).0
}

fn texts(list: &[&str]) -> Texts {
    Texts::new(&[i64::try_from(list.len()).unwrap()], list.iter().map(|text| (*text).to_owned()).collect()).unwrap()
}

#[test]
fn words_become_numbers() {
    let model = TextModel::read(&words()).unwrap();
    assert_eq!(model.inputs().collect::<Vec<_>>(), ["x"]);
    let given = TextValue::Texts(texts(&["THE", "Cat", "eel", "Dog"]));
    let outputs = model.run(core::slice::from_ref(&given)).unwrap();
    assert_eq!(outputs[0], TextValue::Texts(texts(&["cat!", "eel!", "dog!"])));
    let numbers = |value: &TextValue| match value {
        TextValue::Numbers(numbers) => numbers.to_ints().unwrap(),
        TextValue::Texts(texts) => panic!("{texts:?}"),
    };
    assert_eq!((numbers(&outputs[1]), numbers(&outputs[2])), (vec![7, -1, 8], vec![1, 0, 1]));
    // All texts are removed: one empty text, and its mark.
    let outputs = model.run(&[TextValue::Texts(texts(&["the", "a", "A"]))]).unwrap();
    assert_eq!(outputs[0], TextValue::Texts(texts(&["!"])));
    let message = |inputs: &[TextValue]| model.run(inputs).unwrap_err().to_string();
    assert_eq!(message(&[]), "got 0 inputs, expected 1: x");
    assert_eq!(
        message(&[outputs[1].clone()]),
        "node 'normal' (StringNormalizer): input 0: expected texts, got numbers"
    );
    let error = import(&words(), None, &ModelOptions::default()).map(drop).unwrap_err().to_string();
    assert!(error.contains("kernpack_graph::text::TextModel"), "{error}");
}

#[test]
fn from_another_language() {
    let read = Function::global("kernpack.graph.text_model").unwrap();
    let model: ObjRef<SharedTextModel> = read.call_as((Bytes::from(words()),)).unwrap();
    assert_eq!(
        model.outputs.iter().map(|name| name.as_str().to_owned()).collect::<Vec<_>>(),
        ["marked", "numbers", "matches"]
    );
    let list: Array<Str> = ["Dog"].into_iter().map(Str::from).collect();
    let x = ObjRef::new(TextTensor { shape: Shape::new(&[1]), texts: list });
    let outputs = model.run([Any::from(x)].into_iter().collect()).unwrap();
    let marked: ObjRef<TextTensor> = outputs.get(0).unwrap().to().unwrap();
    assert_eq!((&marked.shape[..], marked.texts.get(0).unwrap().as_str()), (&[1][..], "dog!"));
    let numbers: Tensor = outputs.get(1).unwrap().to().unwrap();
    assert_eq!(numbers.view::<i64>().unwrap().to_vec(), [8]);
}

#[test]
fn what_is_no_model_of_texts() {
    let message = |bytes: &[u8]| TextModel::read(bytes).err().map(|error| error.to_string()).unwrap_or_default();
    let graph = Message::default()
        .message(1, node("Relu", &["x"], &["y"]))
        .message(1, with_text(node("RegexFullMatch", &["x"], &["z"]), "pattern", "("))
        .message(11, texts_value("x", &[1]))
        .message(12, texts_value("y", &[1]));
    let both = Message::default().int(1, 8).message(7, graph).message(8, Message::default().text(1, "").int(2, 20)).0;
    let all = message(&both);
    assert!(all.contains("node 'y' (Relu): it is not supported in a model of texts"), "{all}");
    assert!(all.contains("node 'z' (RegexFullMatch): attribute `pattern` is not a pattern: "), "{all}");
    let whole = words();
    for cut in 0..whole.len() {
        // The opsets at the end are optional; everything else is required.
        assert!(!message(&whole[..cut]).is_empty() || cut > 300, "{cut}");
    }
    let mut state = 5_u64;
    for _ in 0..2000 {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mut damaged = whole.clone();
        let place = usize::try_from(state >> 33).unwrap() % damaged.len();
        damaged[place] ^= u8::try_from(state >> 20 & 0xff).unwrap() | 1;
        if let Ok(model) = TextModel::read(&damaged) {
            let _ = model.run(&[TextValue::Texts(texts(&["Cat"]))]);
        }
    }
}
