//! Given names of invented people: a beginning and an ending, 16,000 different ones.

use crate::random::Stream;

/// People of 1024 with a single name; the others have two, joined by a hyphen.
const SINGLE_NAMES_OF_1024: u32 = 168;

const BEGINNINGS: [&str; 128] = [
    "Ada", "Adel", "Al", "Ale", "Ami", "Ana", "Andr", "Ang", "Ari", "Ast", "Aur", "Bal", "Ban",
    "Bar", "Ben", "Ber", "Bo", "Bran", "Bri", "Cal", "Cam", "Car", "Cas", "Ce", "Chan", "Chris",
    "Cla", "Col", "Con", "Cor", "Dal", "Dan", "Dar", "De", "Del", "Dmi", "Dom", "Dor", "Ed", "El",
    "Eli", "Em", "Er", "Est", "Eva", "Fab", "Fe", "Fer", "Fi", "Flo", "Fran", "Fre", "Ga", "Ge",
    "Ger", "Gi", "Gra", "Gre", "Ha", "Han", "Har", "He", "Hi", "Hu", "Ida", "Il", "In", "Is", "Iv",
    "Ja", "Jan", "Je", "Jo", "Ju", "Ka", "Kar", "Ken", "Ki", "Kla", "Kor", "La", "Lar", "Le",
    "Leo", "Li", "Lor", "Lu", "Ma", "Mar", "Mat", "Mei", "Mi", "Mir", "Mo", "Na", "Nat", "Ni",
    "No", "Ol", "Or", "Os", "Pa", "Per", "Phi", "Ra", "Re", "Ri", "Ro", "Ros", "Ru", "Sa", "Sam",
    "Se", "Shi", "Si", "So", "Ste", "Ta", "Te", "The", "To", "Ul", "Va", "Vi", "Wal", "Wil", "Ya",
    "Zo",
];

const ENDINGS: [&str; 125] = [
    "a", "bela", "belle", "bert", "bina", "bor", "brina", "ca", "celia", "cent", "ciana", "cilla",
    "cor", "da", "dalia", "dan", "della", "derik", "dina", "dolph", "don", "dora", "dra", "drian",
    "drik", "ea", "elle", "ena", "enka", "eta", "fan", "fina", "fonso", "ford", "gard", "gen",
    "gina", "gold", "gor", "gunde", "hard", "helm", "hild", "ia", "iana", "ina", "ika", "ion",
    "istos", "ita", "ja", "jana", "ka", "karin", "ke", "ko", "kov", "la", "land", "lara", "lene",
    "leta", "lia", "lina", "linda", "lis", "lo", "lotte", "low", "mar", "maris", "mena", "mila",
    "min", "mina", "mon", "mund", "na", "nadia", "nand", "nara", "nelia", "nette", "nia", "nika",
    "niko", "nora", "olf", "ona", "ora", "otto", "phine", "polda", "ra", "randa", "rena", "rian",
    "rick", "rina", "rita", "ro", "roslav", "ry", "salia", "sandro", "selma", "shiko", "sina",
    "slava", "son", "stan", "stasia", "ta", "tavia", "ten", "thea", "tine", "ton", "tor", "una",
    "valda", "vera", "vin", "wald", "ward",
];

/// Appends the name of one person.
pub(crate) fn push_person(random: &mut Stream, out: &mut Vec<u8>) {
    let single = random.below(1024) < SINGLE_NAMES_OF_1024;
    push_given(random, out);
    if !single {
        out.push(b'-');
        push_given(random, out);
    }
}

fn push_given(random: &mut Stream, out: &mut Vec<u8>) {
    let beginning = BEGINNINGS[random.below(BEGINNINGS.len() as u32) as usize];
    let ending = ENDINGS[random.below(ENDINGS.len() as u32) as usize];
    out.extend_from_slice(beginning.as_bytes());
    out.extend_from_slice(ending.as_bytes());
}
