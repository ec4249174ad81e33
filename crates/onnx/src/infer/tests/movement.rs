use super::table;

#[test]
fn joining_and_splitting() {
    table! {
        "Concat" "f32[2,b]", "f32[3,b]", "f32[t,b]" { axis: 0 } => "f32[t + 5,b]";
        "Concat" "f32[2,3]" { axis: -1 } => "f32[2,3]";
        "Concat" "f32[2,3]", "f32[2,3]" {} => "Concat: attribute `axis` is missing";
        "Concat" "f32[2,3]", "f32[4,4]" { axis: 0 } => "Concat: f32[2,3] and f32[4,4] differ on axis 1";
        "Concat" "f32[2,3]", "f32[2]" { axis: 0 } => "Concat: input 1 is f32[2], but its rank must be 2";
        "Split" "f32[7,2]", "{3, 4}" {} => "f32[3,2]; f32[4,2]";
        "Split" "f32[b + 4]", "{4, b}" {} => "f32[4]; f32[b]";
        "Split" "f32[4]" { num_outputs: 1 } => "f32[4]";
        "Split" "f32[7]" { num_outputs: 3 } => "f32[3]; f32[3]; f32[1]";
        "Split" "f32[6,2*b]" { num_outputs: 2, axis: 1 } => "f32[6,b]; f32[6,b]";
        "Split" "f32[b]" { num_outputs: 2 } => "f32[floordiv(b + 1, 2)]; f32[-floordiv(b + 1, 2) + b]";
        "Split" "f32[b]", "{b}" { num_outputs: 1 } => "Split: there must be either input 1 or `num_outputs`";
        "Split" "f32[7]", "{6}" {} => "Split: the parts sum to 6, the axis has 7";
        "Split" "f32[7]", "{3, 4}" {} => "Split: there are 2 parts for 1 results";
        "Split" "f32[7]" { num_outputs: 2 } => "Split: `num_outputs` is 2 and there are 1 results";
    }
}

#[test]
fn sizes() {
    table! {
        "Expand" "f32[b,1]", "{2, 1, 3}" {} => "f32[2,b,3]";
        "Expand" "f32[3]", "{b, 1}" {} => "f32[b,3]";
        "Expand" "f32[3]", "{-1}" {} => "Expand: input 1 holds the size -1";
        "Flatten" "f32[2,3,b]" {} => "f32[2,3*b]";
        "Flatten" "f32[2,3,b]" { axis: 3 } => "f32[6*b,1]";
        "Flatten" "f32[2,3,b]" { axis: 0 } => "f32[1,6*b]";
        "Flatten" "f32[2]" { axis: 2 } => "Flatten: axis 2 is out of range for rank 1";
        "Pad" "f32[b,3]", "{1, 0, 2, 0}" {} => "f32[b + 3,3]";
        "Pad" "f32[4,3]", "{-1, 5}", "-", "{0}" {} => "f32[8,3]";
        "Pad" "f32[4,3]", "{b, 0}", "f32[]", "{-1}" { mode: "edge" } => "f32[4,b + 3]";
        "Pad" "f32[4]", "{-3, -1}" {} => "f32[0]";
        "Pad" "f32[4]", "{-3, -2}" {} => "Pad: axis 0 of f32[4] gets the size -1";
        "Pad" "f32[4,3]", "{1, 2}" {} => "Pad: there are 2 pads for 2 axes";
        "Pad" "f32[4]", "{1, 2}", "i32[]" {} => "Pad: operands are f32[4] and i32[]";
        "Pad" "f32[4]", "{1, 2}" { mode: "blur" } => "Pad: the mode `blur` does not exist";
        "Tile" "f32[b,3]", "{2, t}" {} => "f32[2*b,3*t]";
        "Tile" "f32[b,3]", "{2}" {} => "Tile: there are 1 repeats for f32[b,3]";
    }
}

#[test]
fn axes() {
    table! {
        "Squeeze" "f32[1,b,1]", "{0, -1}" {} => "f32[b]";
        "Squeeze" "f32[1,3,1]" {} => "f32[3]";
        "Squeeze" "f32[1,b + 1,1]" {} => "f32[b + 1]";
        "Squeeze" "f32[1,b,1]" {} => "Squeeze: cannot tell whether axis 1 of f32[1,b,1] has size 1";
        "Squeeze" "f32[1,b]", "{1}" {} => "Squeeze: axis 1 of f32[1,b] is b, not 1";
        "Unsqueeze" "f32[b,3]", "{0, -1}" {} => "f32[1,b,3,1]";
        "Unsqueeze" "f32[]", "{0}" {} => "f32[1]";
        "Unsqueeze" "f32[b]", "{2}" {} => "Unsqueeze: axis 2 is out of range for rank 2";
        "Unsqueeze" "f32[b]", "{0, 0}" {} => "Unsqueeze: axis 0 occurs twice";
        "Transpose" "f32[2,b,4]" { perm: vec![2, 0, 1] } => "f32[4,2,b]";
        "Transpose" "f32[2,b,4]" {} => "f32[4,b,2]";
        "Transpose" "f32[2,3]" { perm: vec![0, 0] } => "Transpose: axis 0 occurs twice";
        "Transpose" "f32[2,3]" { perm: vec![0] } => "Transpose: `perm` has 1 entries, not 2";
        "ReverseSequence" "f32[t,b,4]", "i64[b]" {} => "f32[t,b,4]";
        "ReverseSequence" "f32[t,b]", "i64[t]" { batch_axis: 0, time_axis: 1 } => "f32[t,b]";
        "ReverseSequence" "f32[4,3]", "i64[4]" {} => "ReverseSequence: input 1 is i64[4] for the batch axis of f32[4,3]";
    }
}

#[test]
fn reshapes() {
    table! {
        "Reshape" "f32[2,3,4]", "{6, 4}" {} => "f32[6,4]";
        "Reshape" "f32[2,3,4]", "{0, -1}" {} => "f32[2,12]";
        "Reshape" "f32[1]", "{}" {} => "f32[]";
        "Reshape" "f32[b,3,4]", "{0, -1}" {} => "f32[b,12]";
        "Reshape" "f32[b,3,4]", "{-1, 2, 3}" {} => "f32[2*b,2,3]";
        "Reshape" "f32[b,t]", "{b*t}" {} => "f32[b*t]";
        "Reshape" "f32[b,6]", "{2, b, -1}" {} => "f32[2,b,3]";
        "Reshape" "f32[b^2 - 1]", "{b + 1, -1}" {} => "f32[b + 1,b - 1]";
        "Reshape" "f32[b]", "{floordiv(b, 2), 2}" {} => "f32[floordiv(b, 2),2]";
        "Reshape" "f32[0,3]", "{3, 0}" { allowzero: true } => "f32[3,0]";
        "Reshape" "f32[0,3]", "{0, 3}" {} => "f32[0,3]";
        "Reshape" "f32[0,3]", "{0, -1}" {} => "Reshape: f32[0,3] cannot have the shape [0,-1]";
        "Reshape" "f32[2,3]", "{4}" {} => "Reshape: f32[2,3] cannot have the shape [4]";
        "Reshape" "f32[2,3]", "{4, -1}" {} => "Reshape: f32[2,3] cannot have the shape [4,-1]";
        "Reshape" "f32[b,3]", "{2, -1}" {} => "Reshape: f32[b,3] cannot have the shape [2,-1]";
        "Reshape" "f32[b,3]", "{t, 3}" {} => "Reshape: f32[b,3] cannot have the shape [t,3]";
        "Reshape" "f32[2,3]", "{-1, -1}" {} => "Reshape: -1 occurs twice";
        "Reshape" "f32[2,3]", "{-2, 3}" {} => "Reshape: -2 is not a size";
        "Reshape" "f32[6]", "{6, 0}" {} => "Reshape: f32[6] has no axis 1 to keep";
        "Reshape" "f32[6]", "i64[2]" {} => "Reshape: input 1 must be known here";
        "DepthToSpace" "f32[b,8,2,t]" { blocksize: 2 } => "f32[b,2,4,2*t]";
        "DepthToSpace" "f32[b,6,2,2]" { blocksize: 1 } => "f32[b,6,2,2]";
        "DepthToSpace" "f32[b,6,2,2]" { blocksize: 0 } => "DepthToSpace: `blocksize` is 0";
        "DepthToSpace" "f32[b,6,2,2]" { blocksize: 2 } => "DepthToSpace: 6 is not a multiple of 4";
        "SpaceToDepth" "f32[b,2,4,2*t]" { blocksize: 2 } => "f32[b,8,2,t]";
        "SpaceToDepth" "f32[b,2,4,t]" { blocksize: 2 } => "SpaceToDepth: t is not a multiple of 2";
        "SpaceToDepth" "f32[2,4,4]" { blocksize: 2 } => "SpaceToDepth: input 0 is f32[2,4,4], but its rank must be 4";
    }
}

#[test]
fn known_slices() {
    table! {
        "Slice" "f32[10,4]", "{2}", "{8}" {} => "f32[6,4]";
        "Slice" "f32[10,4]", "{2, 0}", "{8, 3}", "-", "{3, 2}" {} => "f32[2,2]";
        "Slice" "f32[10]", "{-3}", "{9223372036854775807}" {} => "f32[3]";
        "Slice" "f32[10]", "{-30}", "{30}" {} => "f32[10]";
        "Slice" "f32[10]", "{7}", "{3}" {} => "f32[0]";
        "Slice" "f32[4,10]", "{-1}", "{-9223372036854775807}", "{1}", "{-1}" {} => "f32[4,10]";
        "Slice" "f32[10]", "{8}", "{2}", "{0}", "{-4}" {} => "f32[2]";
        "Slice" "f32[10]", "{-99}", "{-99}", "{0}", "{-1}" {} => "f32[1]";
        "Slice" "f32[0]", "{-1}", "{-99}", "{0}", "{-1}" {} => "f32[0]";
        "Slice" "f32[10]", "i32{1}", "i32{3}", "i32{0}", "i32{1}" {} => "f32[2]";
        "Slice" "f32[10]", "{0}", "{1}", "{0}", "{0}" {} => "Slice: a step is 0";
        "Slice" "f32[10]", "{5}", "{9223372036854775807}", "{0}", "{-1}" {} => "Slice: an end is far past the start";
        "Slice" "f32[10]", "{0, 0}", "{1, 1}" {} => "Slice: 2 starts, rank 1";
        "Slice" "f32[10,2]", "{0, 0}", "{1}" {} => "Slice: 2 axes, 2 starts, 1 ends and 2 steps";
        "Slice" "f32[10]", "i64[1]", "{1}" {} => "Slice: input 1 must be known here";
    }
}

#[test]
fn symbolic_slices() {
    table! {
        "Slice" "f32[b]", "{1}", "{9223372036854775807}" {} => "f32[b - 1]";
        "Slice" "f32[b]", "{3}", "{2147483647}" {} => "f32[max(b - 3, 0)]";
        "Slice" "f32[b]", "{0}", "{-2}", "{0}", "{2}" {} => "f32[floordiv(b - 1, 2)]";
        "Slice" "f32[b]", "{2}", "{2147483647}", "{0}", "{2}" {} => "f32[floordiv(b - 1, 2)]";
        "Slice" "f32[b + 3]", "{3}", "{b + 3}" {} => "f32[b]";
        "Slice" "f32[b]", "{0}", "{3}" {} => "f32[min(b, 3)]";
        "Slice" "f32[b]", "{0}", "{-1}" {} => "f32[b - 1]";
        "Slice" "f32[b]", "{0}", "{-3}" {} => "f32[max(b - 3, 0)]";
        "Slice" "f32[b]", "{0}", "{9223372036854775807}", "{0}", "{2}" {} => "f32[floordiv(b + 1, 2)]";
        "Slice" "f32[b]", "{1}", "{b - 1}", "{0}", "{3}" {} => "f32[floordiv(b, 3)]";
        "Slice" "f32[b]", "{0}", "{floordiv(b, 2)}" {} => "f32[floordiv(b, 2)]";
        "Slice" "f32[b]", "{floordiv(b, 2)}", "{b}" {} => "f32[-floordiv(b, 2) + b]";
        "Slice" "f32[10]", "{0}", "{b}" {} => "f32[min(10, b)]";
        "Slice" "f32[b]", "{-2}", "{9223372036854775807}" {} => "f32[-max(b - 2, 0) + b]";
        "Slice" "f32[b]", "{-1}", "{-9223372036854775807}", "{0}", "{-1}" {} => "f32[b]";
        "Slice" "f32[b]", "{9223372036854775807}", "{-9223372036854775807}", "{0}", "{-2}" {} => "f32[floordiv(b + 1, 2)]";
        "Slice" "f32[b]", "{b - 5}", "{b}" {} => "Slice: cannot tell whether the index b - 5 is negative";
        "Slice" "f32[b]", "{-b}", "{b}" {} => "f32[b]";
    }
}

#[test]
fn resizes() {
    table! {
        "Resize" "f32[1,3,b,5]", "-", "-", "{1, 3, 8, t}" {} => "f32[1,3,8,t]";
        "Resize" "f32[1,3,4,5]", "-", "-", "{8, 9}" { axes: vec![2, -1] } => "f32[1,3,8,9]";
        "Resize" "f32[b,5]", "-", "f32{1.5, 0.5}" {} => "f32[floordiv(3*b, 2),2]";
        "Resize" "f32[b,7]", "-", "f32{2, 0.3333333}" {} => "f32[2*b,2]";
        "Resize" "f32[b]", "-", "f32{0.3333333}" {} => "Resize: the size b times 0.3333333134651184 is not exact";
        "Resize" "f32[b]", "-", "f32{0}" {} => "Resize: 0 is not a valid scale";
        "Resize" "f32[b]", "-", "f32{inf}" {} => "Resize: inf is not a valid scale";
        "Resize" "f32[b]", "-", "f32{65535}" {} => "f32[65535*b]";
        "Resize" "f32[b]", "-", "f32{65536}" {} => "Resize: the size b times 65536 is not exact";
        "Resize" "f32[b]", "-", "f32[1]" {} => "Resize: input 2 must be known here";
        "Resize" "f32[b]" {} => "Resize: there must be either scales or sizes";
        "Resize" "f32[b,2]", "-", "-", "{3}" {} => "Resize: there are 1 sizes for 2 axes";
    }
}
