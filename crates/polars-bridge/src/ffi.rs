//! Single columns by the Arrow C data interface.

#![expect(unsafe_code, reason = "the C data interface is pointers that each side has to believe")]

use std::mem::ManuallyDrop;

use arrow::array::{Array, ArrayRef, make_array};
use arrow::ffi::{FFI_ArrowArray, FFI_ArrowSchema, from_ffi, to_ffi};
use polars::prelude::PolarsResult;
use polars_arrow::array::Array as PolarsArray;
use polars_arrow::datatypes::Field;
use polars_arrow::ffi::{
    ArrowArray, ArrowSchema, export_array_to_c, export_field_to_c, import_array_from_c,
    import_field_from_c,
};

/// Passes a column on to polars.
pub(crate) fn to_polars(array: &dyn Array) -> PolarsResult<Box<dyn PolarsArray>> {
    let (array, schema) = to_ffi(&array.to_data()).map_err(|error| crate::failed(&error))?;
    // SAFETY: both libraries declare the two structures of the C data interface as it defines
    // them, field for field, `#[repr(C)]`.
    let (array, schema) =
        unsafe { (moved::<_, ArrowArray>(array), moved::<_, ArrowSchema>(schema)) };
    // SAFETY: arrow has just filled both in, of one array, and nothing has released them.
    unsafe {
        let field = import_field_from_c(&schema)?;
        import_array_from_c(array, field.dtype)
    }
}

/// Passes a column on to arrow.
pub(crate) fn from_polars(name: &str, array: Box<dyn PolarsArray>) -> PolarsResult<ArrayRef> {
    let field = Field::new(name.into(), array.dtype().clone(), true);
    let (array, schema) = (export_array_to_c(array), export_field_to_c(&field));
    // SAFETY: as in `to_polars`.
    let (array, schema) =
        unsafe { (moved::<_, FFI_ArrowArray>(array), moved::<_, FFI_ArrowSchema>(schema)) };
    // SAFETY: polars has just filled both in, of one array, and nothing has released them.
    let data = unsafe { from_ffi(array, &schema) }.map_err(|error| crate::failed(&error))?;
    Ok(make_array(data))
}

/// The same bytes as another type. Only one of the two releases what they point to.
///
/// # Safety
///
/// Every value of `From` must be one of `To`.
unsafe fn moved<From, To>(value: From) -> To {
    const {
        assert!(size_of::<From>() == size_of::<To>());
        assert!(align_of::<From>() == align_of::<To>());
    }
    let value = ManuallyDrop::new(value);
    // SAFETY: the pointer is valid and aligned, the caller vouches for the bytes, and `value` is
    // never dropped.
    unsafe { std::ptr::read((&raw const value).cast::<To>()) }
}
