//! Columns of each dataset, in file order, under the names of GDELT's codebooks.
//!
//! Sources: *GDELT Event Database Data Format Codebook* 1.03 and 2.0 (events, mentions), *GKG Data
//! Format Codebook* 1.0 and 2.1, <https://www.gdeltproject.org/data.html#documentation>. The
//! reduced events file has no codebook: its header row names the columns. Where a codebook calls a
//! value an integer and the data are fractional (`MentionDocTone`), the data decide.

use arrow::datatypes::DataType;

/// The type of a column.
///
/// Codes and identifiers with leading zeros or signs are text: CAMEO `010` is not 10, and a
/// `FeatureID` may be `-2960561` or `CA`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColumnType {
    /// A signed 64-bit whole number; dates are numbers of 8 or 14 digits.
    Int64,
    /// A 64-bit floating-point number.
    Float64,
    /// UTF-8 text.
    Text,
    /// A day, in 32 bits. No file of GDELT's has such a column: cleaning can add one.
    Date,
}

impl ColumnType {
    /// The arrow type of such a column.
    pub fn data_type(self) -> DataType {
        match self {
            Self::Int64 => DataType::Int64,
            Self::Float64 => DataType::Float64,
            Self::Text => DataType::Utf8,
            Self::Date => DataType::Date32,
        }
    }
}

/// A column of a dataset. Every column may hold nulls: an empty field is null.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// The name in GDELT's codebook.
    pub name: &'static str,
    /// The type of its values.
    pub column_type: ColumnType,
}

const fn int(name: &'static str) -> Column {
    Column { name, column_type: ColumnType::Int64 }
}

const fn float(name: &'static str) -> Column {
    Column { name, column_type: ColumnType::Float64 }
}

const fn text(name: &'static str) -> Column {
    Column { name, column_type: ColumnType::Text }
}

/// What the repair of dates adds to events: GDELT's own values of the rows that it changed, null in
/// all others. In files they stand behind the dataset's columns, in this order.
pub const DATE_ORIGINALS: &[Column] = &[
    int("Day_original"),
    int("MonthYear_original"),
    int("Year_original"),
    float("FractionDate_original"),
];

/// The day of an event as a date, which cleaning can add behind the columns above.
pub const EVENT_DATE: Column = Column { name: "EventDate", column_type: ColumnType::Date };

/// What the codes of a column mean, which cleaning can add behind all others.
pub(crate) const LABELS: &[Column] = &[
    text("Actor1CountryCode_Label"),
    text("Actor1KnownGroupCode_Label"),
    text("Actor1EthnicCode_Label"),
    text("Actor1Religion1Code_Label"),
    text("Actor1Religion2Code_Label"),
    text("Actor1Type1Code_Label"),
    text("Actor1Type2Code_Label"),
    text("Actor1Type3Code_Label"),
    text("Actor2CountryCode_Label"),
    text("Actor2KnownGroupCode_Label"),
    text("Actor2EthnicCode_Label"),
    text("Actor2Religion1Code_Label"),
    text("Actor2Religion2Code_Label"),
    text("Actor2Type1Code_Label"),
    text("Actor2Type2Code_Label"),
    text("Actor2Type3Code_Label"),
    text("EventCode_Label"),
    text("EventBaseCode_Label"),
    text("EventRootCode_Label"),
    text("CAMEOCode_Label"),
    text("Actor1Geo_CountryCode_Label"),
    text("Actor2Geo_CountryCode_Label"),
    text("ActionGeo_CountryCode_Label"),
    text("Geo_CountryCode_Label"),
];

pub(crate) const EVENTS: &[Column] = &[
    int("GlobalEventID"),
    int("Day"),
    int("MonthYear"),
    int("Year"),
    float("FractionDate"),
    text("Actor1Code"),
    text("Actor1Name"),
    text("Actor1CountryCode"),
    text("Actor1KnownGroupCode"),
    text("Actor1EthnicCode"),
    text("Actor1Religion1Code"),
    text("Actor1Religion2Code"),
    text("Actor1Type1Code"),
    text("Actor1Type2Code"),
    text("Actor1Type3Code"),
    text("Actor2Code"),
    text("Actor2Name"),
    text("Actor2CountryCode"),
    text("Actor2KnownGroupCode"),
    text("Actor2EthnicCode"),
    text("Actor2Religion1Code"),
    text("Actor2Religion2Code"),
    text("Actor2Type1Code"),
    text("Actor2Type2Code"),
    text("Actor2Type3Code"),
    int("IsRootEvent"),
    text("EventCode"),
    text("EventBaseCode"),
    text("EventRootCode"),
    int("QuadClass"),
    float("GoldsteinScale"),
    int("NumMentions"),
    int("NumSources"),
    int("NumArticles"),
    float("AvgTone"),
    int("Actor1Geo_Type"),
    text("Actor1Geo_FullName"),
    text("Actor1Geo_CountryCode"),
    text("Actor1Geo_ADM1Code"),
    float("Actor1Geo_Lat"),
    float("Actor1Geo_Long"),
    text("Actor1Geo_FeatureID"),
    int("Actor2Geo_Type"),
    text("Actor2Geo_FullName"),
    text("Actor2Geo_CountryCode"),
    text("Actor2Geo_ADM1Code"),
    float("Actor2Geo_Lat"),
    float("Actor2Geo_Long"),
    text("Actor2Geo_FeatureID"),
    int("ActionGeo_Type"),
    text("ActionGeo_FullName"),
    text("ActionGeo_CountryCode"),
    text("ActionGeo_ADM1Code"),
    float("ActionGeo_Lat"),
    float("ActionGeo_Long"),
    text("ActionGeo_FeatureID"),
    int("DATEADDED"),
    text("SOURCEURL"),
];

pub(crate) const EVENTS_15MIN: &[Column] = &[
    int("GlobalEventID"),
    int("Day"),
    int("MonthYear"),
    int("Year"),
    float("FractionDate"),
    text("Actor1Code"),
    text("Actor1Name"),
    text("Actor1CountryCode"),
    text("Actor1KnownGroupCode"),
    text("Actor1EthnicCode"),
    text("Actor1Religion1Code"),
    text("Actor1Religion2Code"),
    text("Actor1Type1Code"),
    text("Actor1Type2Code"),
    text("Actor1Type3Code"),
    text("Actor2Code"),
    text("Actor2Name"),
    text("Actor2CountryCode"),
    text("Actor2KnownGroupCode"),
    text("Actor2EthnicCode"),
    text("Actor2Religion1Code"),
    text("Actor2Religion2Code"),
    text("Actor2Type1Code"),
    text("Actor2Type2Code"),
    text("Actor2Type3Code"),
    int("IsRootEvent"),
    text("EventCode"),
    text("EventBaseCode"),
    text("EventRootCode"),
    int("QuadClass"),
    float("GoldsteinScale"),
    int("NumMentions"),
    int("NumSources"),
    int("NumArticles"),
    float("AvgTone"),
    int("Actor1Geo_Type"),
    text("Actor1Geo_FullName"),
    text("Actor1Geo_CountryCode"),
    text("Actor1Geo_ADM1Code"),
    text("Actor1Geo_ADM2Code"),
    float("Actor1Geo_Lat"),
    float("Actor1Geo_Long"),
    text("Actor1Geo_FeatureID"),
    int("Actor2Geo_Type"),
    text("Actor2Geo_FullName"),
    text("Actor2Geo_CountryCode"),
    text("Actor2Geo_ADM1Code"),
    text("Actor2Geo_ADM2Code"),
    float("Actor2Geo_Lat"),
    float("Actor2Geo_Long"),
    text("Actor2Geo_FeatureID"),
    int("ActionGeo_Type"),
    text("ActionGeo_FullName"),
    text("ActionGeo_CountryCode"),
    text("ActionGeo_ADM1Code"),
    text("ActionGeo_ADM2Code"),
    float("ActionGeo_Lat"),
    float("ActionGeo_Long"),
    text("ActionGeo_FeatureID"),
    int("DATEADDED"),
    text("SOURCEURL"),
];

pub(crate) const EVENTS_REDUCED: &[Column] = &[
    int("Date"),
    text("Source"),
    text("Target"),
    text("CAMEOCode"),
    int("NumEvents"),
    int("NumArts"),
    int("QuadClass"),
    float("Goldstein"),
    int("SourceGeoType"),
    float("SourceGeoLat"),
    float("SourceGeoLong"),
    int("TargetGeoType"),
    float("TargetGeoLat"),
    float("TargetGeoLong"),
    int("ActionGeoType"),
    float("ActionGeoLat"),
    float("ActionGeoLong"),
];

pub(crate) const GKG_V1: &[Column] = &[
    int("Date"),
    int("NumArticles"),
    text("Counts"),
    text("Themes"),
    text("Locations"),
    text("Persons"),
    text("Organizations"),
    text("Tone"),
    text("EventIds"),
    text("Sources"),
    text("SourceURLs"),
];

pub(crate) const GKG_V1_COUNTS: &[Column] = &[
    int("Date"),
    int("NumArticles"),
    text("CountType"),
    int("Count"),
    text("ObjectType"),
    int("Geo_Type"),
    text("Geo_FullName"),
    text("Geo_CountryCode"),
    text("Geo_ADM1Code"),
    float("Geo_Lat"),
    float("Geo_Long"),
    text("Geo_FeatureID"),
    text("EventIds"),
    text("Sources"),
    text("SourceURLs"),
];

pub(crate) const GKG_V2: &[Column] = &[
    text("GKGRECORDID"),
    int("V2.1DATE"),
    int("V2SOURCECOLLECTIONIDENTIFIER"),
    text("V2SOURCECOMMONNAME"),
    text("V2DOCUMENTIDENTIFIER"),
    text("V1COUNTS"),
    text("V2.1COUNTS"),
    text("V1THEMES"),
    text("V2ENHANCEDTHEMES"),
    text("V1LOCATIONS"),
    text("V2ENHANCEDLOCATIONS"),
    text("V1PERSONS"),
    text("V2ENHANCEDPERSONS"),
    text("V1ORGANIZATIONS"),
    text("V2ENHANCEDORGANIZATIONS"),
    text("V1.5TONE"),
    text("V2.1ENHANCEDDATES"),
    text("V2GCAM"),
    text("V2.1SHARINGIMAGE"),
    text("V2.1RELATEDIMAGES"),
    text("V2.1SOCIALIMAGEEMBEDS"),
    text("V2.1SOCIALVIDEOEMBEDS"),
    text("V2.1QUOTATIONS"),
    text("V2.1ALLNAMES"),
    text("V2.1AMOUNTS"),
    text("V2.1TRANSLATIONINFO"),
    text("V2EXTRASXML"),
];

pub(crate) const MENTIONS: &[Column] = &[
    int("GLOBALEVENTID"),
    int("EventTimeDate"),
    int("MentionTimeDate"),
    int("MentionType"),
    text("MentionSourceName"),
    text("MentionIdentifier"),
    int("SentenceID"),
    int("Actor1CharOffset"),
    int("Actor2CharOffset"),
    int("ActionCharOffset"),
    int("InRawText"),
    int("Confidence"),
    int("MentionDocLen"),
    float("MentionDocTone"),
    text("MentionDocTranslationInfo"),
    text("Extras"),
];

pub(crate) const EVENTS_REDUCED_HEADER: &[&str] = &[
    "Date",
    "Source",
    "Target",
    "CAMEOCode",
    "NumEvents",
    "NumArts",
    "QuadClass",
    "Goldstein",
    "SourceGeoType",
    "SourceGeoLat",
    "SourceGeoLong",
    "TargetGeoType",
    "TargetGeoLat",
    "TargetGeoLong",
    "ActionGeoType",
    "ActionGeoLat",
    "ActionGeoLong",
];

pub(crate) const GKG_V1_HEADER: &[&str] = &[
    "DATE",
    "NUMARTS",
    "COUNTS",
    "THEMES",
    "LOCATIONS",
    "PERSONS",
    "ORGANIZATIONS",
    "TONE",
    "CAMEOEVENTIDS",
    "SOURCES",
    "SOURCEURLS",
];

pub(crate) const GKG_V1_COUNTS_HEADER: &[&str] = &[
    "DATE",
    "NUMARTS",
    "COUNTTYPE",
    "NUMBER",
    "OBJECTTYPE",
    "GEO_TYPE",
    "GEO_FULLNAME",
    "GEO_COUNTRYCODE",
    "GEO_ADM1CODE",
    "GEO_LAT",
    "GEO_LONG",
    "GEO_FEATUREID",
    "CAMEOEVENTIDS",
    "SOURCES",
    "SOURCEURLS",
];
